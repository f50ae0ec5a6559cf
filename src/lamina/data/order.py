"""Which examples make which batch: a pure function of the seed, the epoch and the number of the batch.

    all examples ── shuffled ──▶ pools ── each sorted by size ──▶ one row ── cut at the budget ──▶ batches ── shuffled

Examples of like size come together, but only those that one pool holds: shuffling stays close to uniform. Processes
play no part here; each takes its `share` of a global batch. So (epoch, batch) is all a run must remember to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, overload

import numpy as np
from pydantic import Field

from lamina.data.packed import Integers
from lamina.data.randomness import permutation
from lamina.errors import UserError
from lamina.options import Options


class OrderOptions(Options):
    """How examples are put into batches."""

    max_tokens: int = Field(4096, ge=1)
    """Tokens in a batch, over all processes: the sum over its examples of the larger of source and target."""
    pool: int = Field(8192, ge=1)
    """Examples among which like sizes are brought together; 1 does not group at all."""
    oversize: Literal["error", "alone"] = "error"
    """An example of more than max_tokens is an error, or a batch of its own."""
    shuffle: bool = True
    """Off for evaluation: all examples by size, the same in every epoch."""


class Epoch(Sequence[Integers]):
    """The global batches of one epoch, each an array of example numbers."""

    def __init__(self, examples: Integers, bounds: Integers, turns: Integers) -> None:
        self._examples, self._bounds, self._turns = examples, bounds, turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, index: int) -> Integers: ...
    @overload
    def __getitem__(self, index: slice) -> list[Integers]: ...
    def __getitem__(self, index: int | slice) -> Integers | list[Integers]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        turn = self._turns[index]
        return self._examples[self._bounds[turn] : self._bounds[turn + 1]]


class BatchPlan:
    """All epochs of global batches over examples of known size."""

    def __init__(
        self,
        sizes: Integers,
        options: OrderOptions,
        seed: int = 0,
        draw: Callable[[int], Integers] | None = None,
    ) -> None:
        """`draw(epoch)` says which examples an epoch holds, perhaps some of them twice; by default each comes once."""
        self.sizes, self.options, self.seed = np.asarray(sizes, np.int64), options, seed
        self._draw = draw or (lambda epoch: np.arange(len(self.sizes)))
        self._last: tuple[int, Epoch] | None = None
        self._check_sizes()

    def epoch(self, epoch: int) -> Epoch:
        """The batches of one epoch, counted from 0. The last one asked for is kept."""
        last = self._last  # read once: a background thread may ask as well
        if last is None or last[0] != epoch:
            last = self._last = (epoch, self._plan(epoch))
        return last[1]

    def locate(self, step: int) -> tuple[int, int]:
        """The epoch and the number in it of the batch that is the `step`-th of all, from 0."""
        epoch = 0
        while step >= len(self.epoch(epoch)):
            step -= len(self.epoch(epoch))
            epoch += 1
        return epoch, step

    def _plan(self, epoch: int) -> Epoch:
        drawn = self._draw(epoch)
        if self.options.shuffle:
            drawn = drawn[permutation(len(drawn), "examples", self.seed, epoch)]
        pool = self.options.pool if self.options.shuffle else max(1, len(drawn))
        examples = _group(drawn, self.sizes, pool)
        bounds = _cut(self.sizes[examples], self.options.max_tokens)
        count = len(bounds) - 1
        turns = permutation(count, "batches", self.seed, epoch) if self.options.shuffle else np.arange(count)
        return Epoch(examples, bounds, turns)

    def _check_sizes(self) -> None:
        if len(self.sizes) == 0:
            raise UserError("there are no examples to make batches from")
        largest = int(self.sizes.argmax())
        if self.options.oversize == "error" and self.sizes[largest] > self.options.max_tokens:
            count = int((self.sizes > self.options.max_tokens).sum())
            raise UserError(
                f"example {largest} has {self.sizes[largest]:,} tokens, more than max_tokens = "
                f"{self.options.max_tokens:,} ({count:,} such examples); raise max_tokens, set oversize = 'alone', "
                "or have long examples skipped or truncated when the data is prepared"
            )


def _group(examples: Integers, sizes: Integers, pool: int) -> Integers:
    """Sort each pool by size, every other one downwards, so that sizes do not jump where pools meet."""
    pools = np.arange(len(examples)) // pool
    upwards = sizes[examples]
    return examples[np.lexsort((np.where(pools % 2, -upwards, upwards), pools))]


def _cut(sizes: Integers, max_tokens: int) -> Integers:
    """Where batches begin, and at last where the last one ends: each as long as the budget allows."""
    totals = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        before = int(totals[start - 1]) if start else 0
        bounds.append(max(start + 1, int(np.searchsorted(totals, before + max_tokens, side="right"))))
    return np.array(bounds, np.int64)


def share(batch: Integers, sizes: Integers, rank: int, processes: int) -> Integers:
    """What process `rank` takes of a global batch; together the processes take all of it, each example once.

    Examples are dealt from the largest down, to and fro, so that no process gets more tokens than another by more than
    one example's size. A process may get none when there are fewer examples than processes.
    """
    if not 0 <= rank < processes:
        raise UserError(f"rank {rank} does not exist among {processes} processes; ranks count from 0")
    falling = np.argsort(-sizes[batch], kind="stable")
    places = np.arange(len(batch)) % (2 * processes)
    dealt_to = np.minimum(places, 2 * processes - 1 - places)
    return batch[np.sort(falling[dealt_to == rank])]
