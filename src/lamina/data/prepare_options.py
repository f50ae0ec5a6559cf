"""The options of `lamina prepare`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, field_validator, model_validator

from lamina.data.language_pair import LanguagePair
from lamina.data.readers import READERS, Example, Unit
from lamina.data.speech.extraction import SpeechOptions
from lamina.data.synthetic import known_fields
from lamina.data.vocabulary import WHOLE_UNITS, VocabularyOptions
from lamina.errors import unknown
from lamina.options import Names, Options


def _read_files(value: object) -> object:
    """A list of files, a single file, or a table from set names to lists of files."""
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
SPLITS = ("train", "valid", "test")

_SAMPLE_CHARACTERS = 20_000_000
_PLACES = {"folder", "output", "replace"}  # paths, which do not affect the content of the store


class TokenizerOptions(VocabularyOptions):
    """The tokenizer to learn or load."""

    file: str | None = None
    """A tokenizer file to use instead of learning a tokenizer; the other options are then ignored. It is one
    that Lamina wrote, or vocab.txt or tokenizer.json in the folder of a BERT."""
    joint: bool = True
    """Whether source and target share one vocabulary."""
    sample_characters: int | None = pydantic.Field(None, ge=0)
    """The number of characters, sampled evenly, that the vocabulary is learnt from; 0 for all. The default is 20
    million for bpe, wordpiece and unigram, and all text for word and character."""

    @property
    def characters(self) -> int:
        """The number of characters to sample, 0 for all."""
        if self.sample_characters is not None:
            return self.sample_characters
        return 0 if self.kind in WHOLE_UNITS else _SAMPLE_CHARACTERS


class PrepareOptions(Options):
    """The options of `lamina prepare`: the files, their format and the tokenizer."""

    output: str = pydantic.Field(min_length=1)
    """The folder of the store, relative to the working directory."""
    replace: bool = False
    """Whether to replace an existing store that was made from other files or with other options."""
    folder: str = "."
    """The folder that file names are relative to; itself relative to the working directory, not to the config."""
    format: Annotated[str, Names(lambda: READERS)] = "parallel"
    """The format of the files: parallel (line-aligned files, or the mark-up of IWSLT and WMT), tsv, jsonl, plain
    (running text), glue (sentence pairs), wikitext, librispeech (folders of recordings), speech-archive (tar archives
    of recordings, then their transcripts), hub, or embedded (generated text and speech). A tsv or jsonl file whose
    columns name `audio` is a list of recordings. Every text file may be gzipped (.gz)."""
    train: Files = ()
    """Training files, or a table from set names, such as the language pair `de-en`, to files. For `parallel`, source
    and target files in turn; for `hub`, `id:configuration` instead of files; for `embedded`, `kind:count`."""
    valid: Files = ()
    """Validation files, given as for train."""
    test: Files = ()
    """Test files, given as for train; several test sets are a table from their names to their files."""
    hold_out: dict[Literal["valid", "test"], int] = {}
    """Splits to take from the training files, each with a number n: one example in n, chosen by the hash of its last
    text, so that equal texts are never in two splits."""
    columns: dict[Annotated[str, Names(known_fields)], int | str] = {}
    """The column of each field that the task reads, for tsv, jsonl and hub. Numbers count from 1 and mean that there is
    no header line; names are those of the header, or JSON keys (`translation.de` for nested ones). For tsv the default
    is source = 1, target = 2."""
    labels: tuple[str, ...] = ()
    """The label set, in the order of the labels' ids; by default the labels that the training files have."""
    unit: Unit = "line"
    """The unit of `plain` text that is one example: a line, or a paragraph between blank lines."""
    speech: SpeechOptions = SpeechOptions()
    """Options of feature extraction, for the formats of speech."""
    tokenizer: TokenizerOptions = TokenizerOptions()
    """The tokenizer."""
    max_length: int = pydantic.Field(0, ge=0)
    """The largest number of tokens of a sequence in the training data, without bos and eos; 0 for no limit. Validation
    and test sets are stored whole."""
    over_long: Literal["skip", "truncate"] = "skip"
    """Whether a training example with a longer sequence is skipped or the sequence truncated."""

    @field_validator("format")
    @classmethod
    def _known_format(cls, given: str) -> str:
        return READERS[given].format

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, given: dict[str, int | str]) -> dict[str, int | str]:
        for name in given:
            if name not in known_fields():
                raise ValueError(str(unknown("field", name, known_fields())))
        return given

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
        """The options that affect the content of the store."""
        return self.model_dump(mode="json", exclude=_PLACES)

    def sets(self, split: str) -> dict[str, tuple[str, ...]]:
        """The files of a split by the name under which they are stored: `valid`, or `valid/de-en` for each set."""
        files: Files = getattr(self, split)
        if isinstance(files, dict):
            return {f"{split}/{name}": chosen for name, chosen in files.items()}
        return {split: files} if files else {}

    @cached_property
    def language_pairs(self) -> tuple[LanguagePair, ...]:
        """The pairs that training sets are named after."""
        names = self.train if isinstance(self.train, dict) else ()
        return tuple(pair for name in names if (pair := LanguagePair.of_set(name)) is not None)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of all pairs; each gets a tag."""
        return tuple(sorted({language for pair in self.language_pairs for language in pair}))

    def split_of(self, example: Example) -> str:
        """The split of an example of the training files: `train`, or one that is held out."""
        if not self.hold_out:
            return "train"
        *_, text = (value for value in example.fields.values() if isinstance(value, str))
        place = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
        for split, one_in in self.hold_out.items():
            place -= 1 / one_in
            if place < 0:
                return split
        return "train"
