"""The share of the global batch that a process computes in each update, divided into micro-batches.

A global batch is divided into `processes × accumulate` shares; if it is small, the last shares are empty. Ranks without
data run a zero-weight micro-batch, so that collective calls stay aligned: sharded layers are gathered by all processes
or by none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from lamina.data.batches import Batches
from lamina.tasks.base import Inputs, Task
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World


class BatchShare(NamedTuple):
    """A process's share of one global batch."""

    epoch: int
    batch: int
    """The number of the global batch in its epoch."""
    micro_batches: list[Inputs]
    batches: int
    """The number of global batches in the epoch."""


class TrainingBatches:
    """The batches of a run, each divided into the micro-batches of one process."""

    def __init__(self, task: Task, config: RunConfig, world: World) -> None:
        self._task, self._seed = task, config.seed
        self._accumulate = config.train.accumulate
        self._whole = task.batches("train", config.data, seed=config.seed)
        self.plan = self._whole.plan
        processes = world.size * self._accumulate
        self._parts = [
            Batches(self._whole.examples, self.plan, rank=rank, processes=processes) for rank in range(processes)
        ]
        self._own = self._parts[world.rank * self._accumulate :][: self._accumulate]

    def first(self) -> Inputs:
        """The first global batch, undivided: initialisation must not depend on how batches are divided."""
        return self._task.inputs(self._whole.batch(0, 0), seed=self._seed)

    def shares(self, epoch: int = 0, index: int = 0) -> Iterator[BatchShare]:
        """Yield the shares of all global batches from the given one on, without end; may be run in a thread."""
        while True:
            batches = len(self.plan.epoch(epoch))
            for number in range(index, batches):
                yield BatchShare(epoch, number, self._micro_batches(epoch, number), batches)
            epoch, index = epoch + 1, 0

    def attention_padding(self, batches: int = 20) -> float:
        """The fraction of attention scores that are padding, in the first batches; no other computation is padded."""
        cells = [each.attention_cells() for share in islice(self.shares(), batches) for each in share.micro_batches]
        computed, real = (sum(side) for side in zip(*cells, strict=True))
        return 1 - real / computed

    def _micro_batches(self, epoch: int, index: int) -> list[Inputs]:
        parts = [batches.batch(epoch, index) for batches in self._own]
        micro_batches = [self._task.inputs(part, seed=self._seed) for part in parts if len(part)]
        most = min(self._accumulate, len(self.plan.epoch(epoch)[index]))  # as many as the first process has
        if len(micro_batches) < most:
            weightless = replace(self._task.inputs(self._parts[0].batch(epoch, index), seed=self._seed), count=0)
            micro_batches += [weightless] * (most - len(micro_batches))
        return micro_batches
