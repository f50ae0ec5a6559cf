"""The options of `lamina prepare`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, field_validator, model_validator

from lamina.data.readers import READERS, Example, Unit
from lamina.data.vocabulary import VocabularyOptions
from lamina.options import Options


def _read_files(value: object) -> object:
    """A list of files, where one file may stand for a list of one; or a table from set names to such lists."""
    if isinstance(value, Mapping):
        for name in value:
            if not re.fullmatch(r"\w[\w+.-]*", str(name)):
                raise ValueError(f"{name!r} cannot name a set; use letters, digits and + - . _, as in de-en")
        return {name: _read_files(files) for name, files in value.items()}
    files = (value,) if isinstance(value, str) else value
    if not isinstance(files, list | tuple) or not all(isinstance(file, str) for file in files):
        raise ValueError("give a list of files, or a table from set names to lists of files")
    return tuple(files)


Files = Annotated[tuple[str, ...] | dict[str, tuple[str, ...]], BeforeValidator(_read_files)]
Field = Literal["source", "target", "text", "first", "second", "label"]
SPLITS = ("train", "valid", "test")

_SAMPLE_CHARACTERS = 20_000_000
_PLACES = {"folder", "output", "replace"}  # where things are, not what they are: no part of the settings' hash


class TokenizerOptions(VocabularyOptions):
    """The tokenizer to learn, or to load."""

    file: str | None = None
    """A tokenizer file to use instead of learning one; the other options here are then its own."""
    joint: bool = True
    """One vocabulary for source and target, rather than one each."""
    sample_characters: int | None = pydantic.Field(None, ge=0)
    """How much text, evenly spread, the vocabulary is learnt from; 0 for all. Default: 20 million characters for bpe
    and wordpiece, all for word, whose memory is its vocabulary anyway."""

    @property
    def characters(self) -> int:
        """The sample's bound, 0 for none."""
        if self.sample_characters is not None:
            return self.sample_characters
        return 0 if self.kind == "word" else _SAMPLE_CHARACTERS


class PrepareOptions(Options):
    """What to prepare, from which files, and how."""

    output: str
    """Folder of the store to make."""
    replace: bool = False
    """Replace a store that is already there and was made from other files or settings."""
    folder: str = "."
    """Folder that file names are relative to."""
    format: str = "parallel"
    """parallel (line-aligned files, or the mark-up of IWSLT and WMT), tsv, jsonl, plain (running text), glue (sentence
    pairs), wikitext, hub, or embedded (languages of Lamina's own). Every file may be gzipped (.gz)."""
    train: Files = ()
    """Training files, or a table from set names to files: language pairs such as `de-en`. For `parallel` in couples:
    source, target. For `hub`, `id:configuration` instead of files; for `embedded`, `kind:count`."""
    valid: Files = ()
    """Validation files, in the same way."""
    test: Files = ()
    """Test files, in the same way; several test sets are a table from their names to their files."""
    hold_out: dict[Literal["valid", "test"], int] = {}
    """Take a split from the training files where it has no files of its own: one example in so many, chosen by the
    hash of its last text, so that equal texts never end up on both sides."""
    columns: dict[Field, int | str] = {}
    """Field to column, for tsv, jsonl and hub. Numbers count from 1 and mean that there is no header line; names are
    those of the header, or JSON keys (`translation.de` for nested ones). Fields: source, target, text, first, second,
    label. For tsv the default is source = 1, target = 2."""
    labels: tuple[str, ...] = ()
    """The label set, in the order of the labels' numbers."""
    unit: Unit = "line"
    """What one example of `plain` text is: a line, or a paragraph between blank lines."""
    tokenizer: TokenizerOptions = TokenizerOptions()
    """How text becomes tokens."""
    max_length: int = pydantic.Field(0, ge=0)
    """Longest sequence in tokens, without ends; 0 for no limit."""
    over_long: Literal["skip", "truncate"] = "skip"
    """What to do with an example that has a longer one: skip it whole, or cut the sequence."""

    @field_validator("format")
    @classmethod
    def _known_format(cls, given: str) -> str:
        return READERS[given].format

    @model_validator(mode="after")
    def _check_hold_out(self) -> PrepareOptions:
        for split, one_in in self.hold_out.items():
            if one_in < 2:
                raise ValueError(f"hold_out: {split} must be one example in 2 or more")
            if getattr(self, split):
                raise ValueError(f"hold_out: {split} has files of its own")
        if sum(1 / one_in for one_in in self.hold_out.values()) >= 1:
            raise ValueError("hold_out: nothing would be left to train on")
        return self

    def settings(self) -> dict[str, Any]:
        """What decides the content of the store, besides the content of the files."""
        return self.model_dump(mode="json", exclude=_PLACES)

    def sets(self, split: str) -> dict[str, tuple[str, ...]]:
        """The files of a split by the name they are stored under: `valid`, or `valid/de-en` for each set."""
        files: Files = getattr(self, split)
        if isinstance(files, dict):
            return {f"{split}/{name}": chosen for name, chosen in files.items()}
        return {split: files} if files else {}

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of training sets that are named like pairs: each gets a tag."""
        pairs = [name.split("-") for name in self.train] if isinstance(self.train, dict) else []
        return tuple(sorted({language for pair in pairs if len(pair) == 2 for language in pair}))

    def split_of(self, example: Example) -> str:
        """Whether a training example stays, or is held out."""
        if not self.hold_out:
            return "train"
        *_, text = (value for value in example.fields.values() if isinstance(value, str))
        place = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
        for split, one_in in self.hold_out.items():
            place -= 1 / one_in
            if place < 0:
                return split
        return "train"
