"""Examples held in memory, and batches of all epochs, for tests and benchmarks of what batches are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from lamina.data.batches import Batch, Batches
from lamina.data.packed import Integers, PackedField, index_ranges


def batches_from(batches: Batches, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
    """The batches of an epoch, from index `start` on, and of all later epochs."""
    yield from batches.epoch(epoch, start)
    for later in count(epoch + 1):
        yield from batches.epoch(later)


class MemorySplit:
    """Examples held in memory: `MemorySplit({"source": [[5, 6], [7]], "target": [[8], [9, 9]]})`."""

    def __init__(self, fields: Mapping[str, PackedField | Sequence[Sequence[int]]]) -> None:
        self._packed = {
            name: given if isinstance(given, PackedField) else PackedField.of(given) for name, given in fields.items()
        }
        assert len({len(packed) for packed in self._packed.values()}) == 1, "fields of different lengths"
        self._starts = {name: packed.starts for name, packed in self._packed.items()}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self._packed)

    def __len__(self) -> int:
        return len(next(iter(self._packed.values())))

    def lengths(self, field: str) -> Integers:
        return self._packed[field].lengths

    def tokens(self, field: str, index: int) -> Integers:
        packed, start = self._packed[field], self._starts[field][index]
        return packed.ids[start : start + packed.lengths[index]]

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        lengths = self._packed[field].lengths[indices]
        return self._packed[field].ids[index_ranges(self._starts[field][indices], lengths)], lengths
