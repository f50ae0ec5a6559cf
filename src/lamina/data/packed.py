"""Packed sequences: all tokens of a batch in one row, and how many belong to each sequence. Nothing is padded."""

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
    """Token ids of several sequences, one after the other."""

    ids: Integers  # (tokens,)
    lengths: Integers  # (sequences,)

    @classmethod
    def of(cls, sequences: Iterable[Iterable[int]]) -> PackedField:
        arrays = [np.asarray(list(sequence), np.int64) for sequence in sequences]
        lengths = np.array([len(array) for array in arrays], np.int64)
        return cls(np.concatenate([*arrays, np.zeros(0, np.int64)]), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Integers:  # (sequences,)
        return np.cumsum(self.lengths) - self.lengths

    @property
    def rows(self) -> Integers:  # (tokens,)
        """The sequence that each token belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> Integers:  # (tokens,)
        """The place of each token in its sequence."""
        return stretches(np.zeros_like(self.lengths), self.lengths)

    def sequences(self) -> list[Integers]:
        return np.split(self.ids, np.cumsum(self.lengths)[:-1]) if len(self) else []

    def with_ids(self, ids: Integers) -> PackedField:
        return PackedField(ids, self.lengths)


def stretches(starts: Integers, lengths: Integers) -> Integers:
    """The numbers `start`, `start + 1`, … of every stretch, one stretch after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)


def prepend(field: PackedField, ids: int | Integers) -> PackedField:
    """Put one token before every sequence: the same for all (bos), or one for each (the tag of its language)."""
    return _insert(field, ids, field.starts)


def append(field: PackedField, ids: int | Integers) -> PackedField:
    """Put one token after every sequence: the same for all (eos), or one for each."""
    return _insert(field, ids, field.starts + field.lengths)


def _insert(field: PackedField, ids: int | Integers, before: Integers) -> PackedField:
    # Empty sequences share their place with the next one; np.insert keeps the order of what goes to the same place.
    return PackedField(np.insert(field.ids, before, ids), field.lengths + 1)


def join(first: PackedField, second: PackedField) -> PackedField:
    """Each sequence of `first` followed by its partner in `second`: the two sentences of a pair as one."""
    joined = np.empty(len(first.ids) + len(second.ids), np.int64)
    starts = first.starts + second.starts
    joined[stretches(starts, first.lengths)] = first.ids
    joined[stretches(starts + first.lengths, second.lengths)] = second.ids
    return PackedField(joined, first.lengths + second.lengths)


def score_cells(queries: Integers, keys: Integers) -> tuple[int, int]:
    """Attention scores that are computed for sequences of these lengths, and those of them between real tokens."""
    if len(queries) == 0:
        return 0, 0
    return len(queries) * int(queries.max()) * int(keys.max()), int((queries * keys).sum())


def to_tensors(field: PackedField) -> tuple[Tensor, Tensor]:
    """Ids and lengths for torch, in pinned memory where there is a GPU to copy to."""
    import torch

    def tensor(array: NDArray[Any]) -> Tensor:
        made = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return made.pin_memory() if torch.cuda.is_available() else made

    return tensor(field.ids), tensor(field.lengths)
