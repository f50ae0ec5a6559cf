from __future__ import annotations

import pytest

from lamina.data.language_pair import LanguagePair


@pytest.mark.parametrize("name", ["de-en", "train/de-en"])
def test_a_set_is_named_after_a_pair_of_languages(name: str) -> None:
    assert LanguagePair.of_set(name) == LanguagePair("de", "en")
    assert list(LanguagePair("de", "en")) == ["de", "en"]


@pytest.mark.parametrize("name", ["train", "newstest2014", "de-", "de-en-fr", "train/de"])
def test_a_set_of_another_name_has_no_languages(name: str) -> None:
    assert LanguagePair.of_set(name) is None
