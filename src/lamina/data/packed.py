"""Packed sequences: all tokens of a batch in one row, and the length of each sequence. There is no padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedField:
    """The token ids of several sequences, concatenated."""

    ids: NDArray[Any]  # (tokens,), or the features of speech, (frames, bins)
    lengths: Integers  # (sequences,)

    @classmethod
    def of(cls, sequences: Iterable[Iterable[int]]) -> PackedField:
        arrays = [each if isinstance(each, np.ndarray) else np.asarray(list(each), np.int64) for each in sequences]
        lengths = np.array([len(array) for array in arrays], np.int64)
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, np.int64), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Integers:  # (sequences,)
        return np.cumsum(self.lengths) - self.lengths

    @property
    def rows(self) -> Integers:  # (tokens,)
        """The index of each token's sequence."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> Integers:  # (tokens,)
        """The position of each token in its sequence."""
        return index_ranges(np.zeros_like(self.lengths), self.lengths)

    def sequences(self) -> list[Integers]:
        return np.split(self.ids, np.cumsum(self.lengths)[:-1]) if len(self) else []

    def with_ids(self, ids: NDArray[Any]) -> PackedField:
        return PackedField(ids, self.lengths)


def index_ranges(starts: Integers, lengths: Integers) -> Integers:
    """The indices `start`, `start + 1`, … of every range, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)


def prepend(field: PackedField, ids: int | Integers) -> PackedField:
    """Put one token before every sequence: the same for all (bos), or one for each (a language tag)."""
    return _insert(field, ids, field.starts)


def append(field: PackedField, ids: int | Integers) -> PackedField:
    """Put one token after every sequence: the same for all (eos), or one for each."""
    return _insert(field, ids, field.starts + field.lengths)


def _insert(field: PackedField, ids: int | Integers, before: Integers) -> PackedField:
    # An empty sequence starts where the next one does; np.insert keeps the order of insertions at the same index.
    return PackedField(np.insert(field.ids, before, ids), field.lengths + 1)


def join(first: PackedField, second: PackedField) -> PackedField:
    """Concatenate each sequence of `first` with the same one of `second`: the two sentences of a pair."""
    joined = np.empty(len(first.ids) + len(second.ids), np.int64)
    starts = first.starts + second.starts
    joined[index_ranges(starts, first.lengths)] = first.ids
    joined[index_ranges(starts + first.lengths, second.lengths)] = second.ids
    return PackedField(joined, first.lengths + second.lengths)


def score_cells(queries: Integers, keys: Integers) -> tuple[int, int]:
    """The number of attention scores computed for sequences of these lengths, and of those between real tokens."""
    if len(queries) == 0:
        return 0, 0
    return len(queries) * int(queries.max()) * int(keys.max()), int((queries * keys).sum())


def to_tensors(field: PackedField) -> tuple[Tensor, Tensor]:
    """Ids and lengths as tensors, in pinned memory if there is a GPU to copy to."""
    import torch

    def tensor(array: NDArray[Any]) -> Tensor:
        made = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return made.pin_memory() if torch.cuda.is_available() else made

    return tensor(field.ids), tensor(field.lengths)
