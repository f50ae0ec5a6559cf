"""The options of lamina prepare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.data.language_pair import LanguagePair
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.vocabulary import VocabularyOptions
from lamina.errors import UserError
from support.small_corpora import options, write


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"hold_out": {"valid": 1}}, "one example in 2 or more"),
        ({"hold_out": {"valid": 2, "test": 2}}, "nothing would be left"),
        ({"hold_out": {"valid": 9}, "valid": ["a", "b"]}, "has files of its own"),
        ({"hold_out": {"train": 9}}, "hold_out"),
        ({"output": ""}, "output: "),
        ({"fromat": "tsv"}, "unknown option 'fromat'; did you mean 'format'"),
        ({"tokenizer": {"siez": 5}}, "unknown option 'siez'; did you mean 'size'"),
        ({"format": "xml"}, "format"),
        ({"train": {"../up": ["a"]}}, "cannot name a set"),
        ({"train": {"a/b": ["a"]}}, "cannot name a set"),
        ({"columns": {"src": 1}}, "columns: unknown field 'src'; did you mean 'source'"),
        ({"train": 5}, "train: give a list of files"),
        ({"train": {"a": [5]}}, "train: give a list of files"),
    ],
)
def test_options_are_checked(tmp_path: Path, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        options(tmp_path, **values)


def test_every_option_is_described() -> None:
    for name, info in {**PrepareOptions.model_fields, **VocabularyOptions.model_fields}.items():
        assert info.description, name


def test_one_file_stands_for_a_list_of_one(tmp_path: Path) -> None:
    write(tmp_path, "a", ["x y", "z"])
    assert options(tmp_path, train="a").train == ("a",)
    assert options(tmp_path, train={"de-en": "a"}).train == {"de-en": ("a",)}
    assert len(prepare(options(tmp_path, format="plain", train="a"))["train"]) == 2


def test_every_language_of_the_training_sets_has_one_tag(tmp_path: Path) -> None:
    files = ["a", "b"]
    given = options(tmp_path, train={"en-fr": files, "de-en": files, "news": files, "de-": files})
    assert given.language_pairs == (LanguagePair("en", "fr"), LanguagePair("de", "en"))
    assert given.languages == ("de", "en", "fr")
    assert options(tmp_path, train=files).languages == ()
