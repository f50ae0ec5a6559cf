"""The embedded languages differ in what the tests of the grammar rely on."""

from __future__ import annotations

import pytest

from lamina.data.synthetic.language import LANGUAGES, language_named
from lamina.errors import UserError


def test_languages_are_found_by_name_and_others_suggest_the_nearest() -> None:
    assert all(language_named(name).name == name for name in LANGUAGES)
    with pytest.raises(UserError, match="unknown embedded language 'tuvvo'; did you mean 'tuvo'"):
        language_named("tuvvo")


def test_every_order_lists_its_constituents_once() -> None:
    for language in LANGUAGES.values():
        for order in (language.main, language.subordinate, language.phrase):
            constituents = order.split()
            assert len(set(constituents)) == len(constituents)
        assert {"subject", "finite", "object"} <= set(language.main.split()) & set(language.subordinate.split())
        assert "noun" in language.phrase.split()
    assert len({language.main for language in LANGUAGES.values()}) == len(LANGUAGES)
