"""Encoding of examples into the arrays of a store, in large batches with bounded memory; dropped ones are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from lamina.data.packed import index_ranges
from lamina.data.readers import Example, Notes
from lamina.data.readers.base import EMPTY
from lamina.data.readers.columns import AUDIO
from lamina.data.speech.extraction import FeatureExtractor
from lamina.data.store_writer import SplitWriter, StoreWriter
from lamina.data.tokenizer import UNK, Tokenizer

OVER_LONG = "over-long"

_BATCH_EXAMPLES, _BATCH_CHARACTERS = 4096, 1 << 20
_RECORDING_CHARACTERS = 1 << 12  # a recording counts as this many: 256 in a batch, about 100 MB of features

EncodedFields = dict[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Encoder:
    """Converts examples to sequences of tokens, and recordings to frames of features."""

    tokenizers: Mapping[str, Tokenizer]
    max_length: int
    over_long: Literal["skip", "truncate"]
    keep_empty: bool
    extract: FeatureExtractor

    def dtypes(self, fields: Iterable[str]) -> dict[str, np.dtype[Any]]:
        """The smallest integer type that holds every token of a field; for recordings, a row of features."""
        sizes = {name: len(self.tokenizers[name]) if name in self.tokenizers else 0 for name in fields}
        found = {name: np.dtype(np.uint16 if size <= 1 << 16 else np.int32) for name, size in sizes.items()}
        if AUDIO in found:
            found[AUDIO] = np.dtype((np.float32, (self.extract.options.bins,)))
        return found

    def encode(self, batch: list[Example], notes: Notes) -> EncodedFields:
        """The concatenated tokens and the lengths of every field; a label is a sequence of length one."""
        sequences: EncodedFields = {}
        for name in batch[0].fields:
            values: list[Any] = [example.fields[name] for example in batch]
            if name == AUDIO:
                extracted = self.extract(values)
                sequences[name] = extracted.features, extracted.lengths
                notes.repaired.update(extracted.repaired)
                for index, reason in extracted.dropped.items():
                    notes.drop(reason, batch[index].file, batch[index].line)
            elif name in self.tokenizers:
                sequences[name] = self.tokenizers[name].encode_flat(values)
            else:
                sequences[name] = np.array(values, np.int64), np.ones(len(values), np.int64)
        return sequences


@dataclass
class SplitBuilder:
    """Encodes and writes the examples of one split, or of one named set of it."""

    name: str
    is_training: bool = True
    """Whether the options for long examples apply: validation and test sets are stored whole."""
    notes: Notes = field(default_factory=Notes)
    writer: SplitWriter | None = None
    seen_in_training: int = 0
    source_equals_target: int = 0

    def append(self, batch: list[Example], encoder: Encoder, store: StoreWriter) -> None:
        """Encode a batch, drop or truncate examples that are too long, and write the others."""
        if self.writer is None:
            self.writer = store.split(self.name, encoder.dtypes(batch[0].fields))
        sequences = encoder.encode(batch, self.notes)
        kept = self._choose(batch, sequences, encoder)
        taken = {name: self._take(name, *sequences[name], kept, encoder) for name in sequences}
        self.writer.append(taken)
        for name in encoder.tokenizers.keys() & sequences.keys():
            self.writer.fields[name].unknown += int((taken[name][0] == UNK).sum())
            texts = [str(batch[index].fields[name]) for index in kept]
            self.writer.fields[name].words += sum(len(text.split()) for text in texts)
            self.writer.fields[name].characters += sum(map(len, texts))

    def _choose(self, batch: list[Example], sequences: EncodedFields, encoder: Encoder) -> np.ndarray:
        """The indices of the examples to keep; dropped ones are noted."""
        lengths = np.stack([lengths for name, (_, lengths) in sequences.items() if name != AUDIO])
        empty = np.zeros(len(batch), bool) if encoder.keep_empty else (lengths == 0).any(axis=0)
        silent = sequences[AUDIO][1] == 0 if AUDIO in sequences else np.zeros(len(batch), bool)  # noted already
        too_long = np.zeros(len(batch), bool)
        if self.is_training and encoder.max_length and encoder.over_long == "skip":
            too_long = (lengths > encoder.max_length).any(axis=0) & ~empty
        for reason, chosen in ((EMPTY, empty), (OVER_LONG, too_long)):
            for index in np.flatnonzero(chosen):
                self.notes.drop(reason, batch[index].file, batch[index].line)
        return np.flatnonzero(~(empty | too_long | silent))

    def _take(
        self, name: str, flat: np.ndarray, lengths: np.ndarray, kept: np.ndarray, encoder: Encoder
    ) -> tuple[np.ndarray, np.ndarray]:
        starts = (np.cumsum(lengths) - lengths)[kept]
        wanted = lengths[kept]
        if self.is_training and encoder.max_length and name != AUDIO:
            assert self.writer is not None
            self.writer.fields[name].truncated += int((wanted > encoder.max_length).sum())
            wanted = np.minimum(wanted, encoder.max_length)
        return flat[index_ranges(starts, wanted)], wanted


def batched(examples: Iterable[Example]) -> Iterator[list[Example]]:
    """Batches of a bounded number of examples and characters, whose examples have the same fields."""
    batch: list[Example] = []
    characters = 0
    for example in examples:
        if batch and example.fields.keys() != batch[0].fields.keys():
            yield batch
            batch, characters = [], 0
        batch.append(example)
        characters += sum(
            len(value) if isinstance(value, str) else _RECORDING_CHARACTERS if name == AUDIO else 0
            for name, value in example.fields.items()
        )
        if len(batch) == _BATCH_EXAMPLES or characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def encode_into(
    builders: Mapping[str, SplitBuilder],
    examples: Iterable[Example],
    route: Callable[[Example], str],
    encoder: Encoder,
    store: StoreWriter,
) -> Iterator[int]:
    """Write each example with the builder that `route` names; yields the size of every batch when it is written."""
    for batch in batched(examples):
        by_split: dict[str, list[Example]] = {}
        for example in batch:
            by_split.setdefault(route(example), []).append(example)
        for name, routed in by_split.items():
            builders[name].append(routed, encoder, store)
        yield len(batch)
