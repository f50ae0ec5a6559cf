"""What batches are made from: numbered examples whose fields are sequences of token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lamina.data.packed import Integers, PackedField, stretches
from lamina.errors import UserError, unknown


class Examples(Protocol):
    """A split of a token store, or anything that looks like one. Sequences come without bos and eos."""

    @property
    def fields(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def lengths(self, field: str) -> Integers:
        """The number of tokens of every example."""

    def tokens(self, field: str, index: int) -> NDArray[Any]:
        """The tokens of one example."""

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        """The tokens of some examples, one after the other, and how many each has."""


class MemorySplit:
    """Examples held in memory: `MemorySplit({"source": [[5, 6], [7]], "target": [[8], [9, 9]]})`."""

    def __init__(self, fields: Mapping[str, PackedField | Sequence[Sequence[int]]]) -> None:
        counts = {name: len(sequences) for name, sequences in fields.items()}
        if not counts:
            raise UserError("a split needs at least one field")
        if len(set(counts.values())) > 1:
            listing = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            raise UserError(f"all fields of a split must have the same number of examples, not {listing}")
        self._packed = {
            name: given if isinstance(given, PackedField) else PackedField.of(given) for name, given in fields.items()
        }
        self._starts = {name: packed.starts for name, packed in self._packed.items()}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self._packed)

    def __len__(self) -> int:
        return len(next(iter(self._packed.values())))

    def lengths(self, field: str) -> Integers:
        return self._field(field).lengths

    def tokens(self, field: str, index: int) -> Integers:
        packed = self._field(field)
        start = self._starts[field][index]
        return packed.ids[start : start + packed.lengths[index]]

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        packed = self._field(field)
        lengths = packed.lengths[indices]
        return packed.ids[stretches(self._starts[field][indices], lengths)], lengths

    def _field(self, name: str) -> PackedField:
        if name not in self._packed:
            raise unknown("field", name, self.fields)
        return self._packed[name]


def example_sizes(examples: Examples, fields: Sequence[str], added: int = 0) -> Integers:
    """What each example costs in a token budget: the tokens of its longest field, with `added` for bos, eos or tags."""
    return np.max([examples.lengths(field) for field in fields], axis=0).astype(np.int64) + added
