"""Batches of packed tokens, in the order of a plan, for one of several processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from lamina.data.examples import Examples
from lamina.data.order import BatchPlan, share
from lamina.data.packed import Integers, PackedField


@dataclass(frozen=True, eq=False)
class Batch:
    """One process's share of a global batch, and where it stands in the training."""

    epoch: int
    index: int
    """The number of the batch in its epoch."""
    examples: Integers  # (sequences,)
    """The number of each example in the split: what noise is a function of."""
    fields: Mapping[str, PackedField]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, field: str) -> PackedField:
        return self.fields[field]


class Batches:
    """Makes the batches of a plan. Any of them can be asked for at any time: nothing is remembered between them."""

    def __init__(
        self,
        examples: Examples,
        plan: BatchPlan,
        *,
        rank: int = 0,
        processes: int = 1,
        fields: Sequence[str] | None = None,
    ) -> None:
        self.examples, self.plan = examples, plan
        self.rank, self.processes = rank, processes
        self.fields = tuple(fields or examples.fields)

    def batch(self, epoch: int, index: int) -> Batch:
        mine = share(self.plan.epoch(epoch)[index], self.plan.sizes, self.rank, self.processes)
        fields = {field: PackedField(*self.examples.gather(field, mine)) for field in self.fields}
        return Batch(epoch, index, mine, fields)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on."""
        for index in range(start, len(self.plan.epoch(epoch))):
            yield self.batch(epoch, index)

    def forever(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """The batches of this epoch from number `start` on, and of all later ones."""
        yield from self.epoch(epoch, start)
        for later in count(epoch + 1):
            yield from self.epoch(later)
