"""What a process computes in each update: its share of the global batch, in pieces.

Dealt out in `processes × accumulate` shares, a small batch leaves the last ones empty. Still all processes compute
equally many pieces, for layers that lie in slices are brought together by all processes or by none: whoever has too few
borrows the first share of all, and none of it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from lamina.data.batches import Batches
from lamina.tasks.base import Inputs, Task
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World

Pieces = tuple[int, int, list[Inputs]]
"""An epoch, the number of a batch in it, and the pieces of this process."""


class Feed:
    def __init__(self, task: Task, config: RunConfig, world: World) -> None:
        self._task, self._seed = task, config.seed
        self._accumulate = config.train.accumulate
        self._whole = task.batches("train", config.data, seed=config.seed)
        self.plan = self._whole.plan
        self._shares = [
            Batches(self._whole.examples, self.plan, rank=rank, processes=world.size * self._accumulate)
            for rank in range(world.size * self._accumulate)
        ]
        self._own = self._shares[world.rank * self._accumulate :][: self._accumulate]

    def first(self) -> Inputs:
        """The first global batch, whole: what start values depend on must not depend on how batches are cut."""
        return self._task.inputs(self._whole.batch(0, 0), seed=self._seed)

    def updates(self, epoch: int = 0, index: int = 0) -> Iterator[Pieces]:
        """The pieces of all updates from that batch on, for ever. May run in a thread."""
        while True:
            for number in range(index, len(self.plan.epoch(epoch))):
                yield epoch, number, self._pieces(epoch, number)
            epoch, index = epoch + 1, 0

    def padding(self, batches: int = 20) -> float:
        """The share of attention scores that are between no real tokens: the only place with padding."""
        cells = [piece.attention_cells() for _, _, pieces in islice(self.updates(), batches) for piece in pieces]
        computed, real = (sum(side) for side in zip(*cells, strict=True))
        return 1 - real / computed

    def _pieces(self, epoch: int, index: int) -> list[Inputs]:
        shares = [batches.batch(epoch, index) for batches in self._own]
        pieces = [self._task.inputs(share, seed=self._seed) for share in shares if len(share)]
        most = min(self._accumulate, len(self.plan.epoch(epoch)[index]))  # what the first process has
        if len(pieces) < most:
            borrowed = self._task.inputs(self._shares[0].batch(epoch, index), seed=self._seed)
            pieces += [replace(borrowed, count=0)] * (most - len(pieces))
        return pieces
