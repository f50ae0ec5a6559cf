"""The embedded languages as a source of `lamina prepare`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import UserError
from lamina.data import synthetic
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.readers import Notes, make_reader


def options(output: Path, **changes: object) -> PrepareOptions:
    chosen = {"format": "embedded", "tokenizer": {"size": 400}, "output": str(output), **changes}
    return PrepareOptions.read(chosen, where="here")


def test_a_store_holds_the_sentences_of_the_generator(tmp_path: Path) -> None:
    store = prepare(options(tmp_path / "store", train=["translation:50"], valid=["translation/selu-marn:5"]))
    tokenizer = store.tokenizer()
    for at, (source, target) in enumerate(synthetic.translation_pairs("train", 50)):
        assert tokenizer.decode(store["train"].tokens("source", at)) == source
        assert tokenizer.decode(store["train"].tokens("target", at)) == target
    expected = list(synthetic.translation_pairs("valid", 5, source="selu", target="marn"))
    assert tokenizer.decode(store["valid"].tokens("source", 2)) == expected[2][0]


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("translation:3", {"source", "target"}),
        ("headlines:3", {"source", "target"}),
        ("text:3", {"text"}),
        ("paraphrases:3", {"first", "second", "label"}),
        ("entailments/tuvo:3", {"first", "second", "label"}),
    ],
)
def test_every_kind(word: str, fields: set[str]) -> None:
    reader = make_reader("embedded", (word,), "train", {})
    reader.check()
    examples = list(reader.read(Notes()))
    assert len(examples) == 3
    assert all(set(example.fields) == fields for example in examples)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("translation", "write kind:count"),
        ("translation:0", "write kind:count"),
        ("translatoin:5", "unknown kind of embedded text 'translatoin'; did you mean 'translation'"),
        ("text/marm:5", "unknown embedded language 'marm'; did you mean 'marn'"),
    ],
)
def test_mistakes(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_reader("embedded", (word,), "train", {}).check()
