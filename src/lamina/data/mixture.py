"""Several sets of examples as one, and how often each is drawn: many languages in one model.

A set of n examples is drawn in proportion to n^(1/T). At temperature 1 every example is drawn as often as any other; at
higher temperatures small sets are drawn more often than their size would have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.data.examples import Examples
from lamina.data.packed import Integers, stretches
from lamina.data.randomness import permutation
from lamina.errors import UserError


class JoinedExamples:
    """The examples of several sets, numbered through. All sets must have the fields of the first."""

    def __init__(self, parts: Sequence[Examples]) -> None:
        if not parts:
            raise UserError("there are no sets of examples to join")
        for number, part in enumerate(parts):
            missing = [field for field in parts[0].fields if field not in part.fields]
            if missing:
                raise UserError(f"set {number} of the joined examples has no field {missing[0]!r}, but set 0 has")
        self.parts = tuple(parts)
        self.counts = np.array([len(part) for part in parts], np.int64)
        self._ends = np.cumsum(self.counts)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.parts[0].fields

    def __len__(self) -> int:
        return int(self._ends[-1])

    def part_of(self, indices: Integers) -> Integers:
        """Which set each example comes from: `prepend(field, tags[joined.part_of(batch.examples)])` tags them."""
        return np.searchsorted(self._ends, indices, side="right")

    def lengths(self, field: str) -> Integers:
        return np.concatenate([part.lengths(field) for part in self.parts])

    def tokens(self, field: str, index: int) -> NDArray[Any]:
        part = int(self.part_of(np.array(index)))
        return self.parts[part].tokens(field, index - int(self._ends[part] - self.counts[part]))

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        """Each set is read once; its sequences then go where the order of `indices` wants them."""
        owners, lengths = self.part_of(indices), np.zeros(len(indices), np.int64)
        gathered: list[tuple[Integers, Integers]] = []
        for number in np.unique(owners):
            places = np.flatnonzero(owners == number)
            local = indices[places] - (self._ends[number] - self.counts[number])
            ids, lengths[places] = self.parts[number].gather(field, local)
            gathered.append((places, ids))
        starts, joined = np.cumsum(lengths) - lengths, np.empty(int(lengths.sum()), np.int64)
        for places, ids in gathered:
            joined[stretches(starts[places], lengths[places])] = ids
        return joined, lengths


class TemperatureSampling:
    """Which examples of which set an epoch draws: the `draw` of a batch plan over joined examples.

    An epoch has as many draws as there are examples. Every set is gone through again and again, each time in a new
    order, and the next epoch goes on where the last one stopped: in time all examples of a set are drawn equally often.
    """

    def __init__(self, counts: Sequence[int] | Integers, temperature: float = 1.0, seed: int = 0) -> None:
        self.counts = np.asarray(counts, np.int64)
        if temperature <= 0:
            raise UserError(f"the sampling temperature must be above 0, not {temperature}")
        if len(self.counts) == 0 or self.counts.min() < 1:
            raise UserError("every set to draw from needs at least one example; leave empty sets out")
        self.seed = seed
        self.shares = _apportion(self.counts, temperature)
        """How many examples of each set an epoch draws."""

    def __call__(self, epoch: int) -> Integers:
        firsts = np.cumsum(self.counts) - self.counts
        return np.concatenate([first + self._drawn(part, epoch) for part, first in enumerate(firsts)])

    def _drawn(self, part: int, epoch: int) -> Integers:
        """A stretch of the endless sequence of passes through one set."""
        count, share = int(self.counts[part]), int(self.shares[part])
        start, stop = epoch * share, (epoch + 1) * share
        passes = range(start // count, -(-stop // count))
        orders = [permutation(count, "pass", self.seed, part, number) for number in passes]
        skipped = start - passes.start * count
        return np.concatenate([*orders, np.zeros(0, np.int64)])[skipped : skipped + share]


def _apportion(counts: Integers, temperature: float) -> Integers:
    """Whole numbers near total · n^(1/T) / Σ n^(1/T) that add up to the total; largest remainders are rounded up."""
    weights = (counts / counts.max()) ** (1 / temperature)
    # Rounded, or a last bit that differs between machines could decide between equal remainders.
    ideal = np.round(weights * (counts.sum() / weights.sum()), 6)
    shares = np.floor(ideal).astype(np.int64)
    rest = int(counts.sum() - shares.sum())
    shares[np.argsort(shares - ideal, kind="stable")[:rest]] += 1
    return shares
