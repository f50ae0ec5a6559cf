"""The length of a run and the intervals within it, in steps or in epochs.

Epochs may differ in their number of batches, because examples are shuffled before they are cut into batches. A run
whose length is given in epochs ends at the end of an epoch, not after a number of steps that is known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.data.batches import BatchPlan
from lamina.training.config import RunConfig, TrainOptions


@dataclass(frozen=True)
class Position:
    """The position of a run in its training data."""

    step: int
    """The number of steps done."""
    epoch: int
    """The number of the epoch, counted from 0."""
    index: int
    """The number of batches of this epoch that are done."""
    batches: int
    """The number of batches in this epoch."""

    @property
    def epochs(self) -> float:
        """The number of epochs done, with the fraction of an unfinished one."""
        return self.epoch + self.index / self.batches

    def has_reached(self, options: TrainOptions) -> bool:
        """Whether training is complete."""
        if options.epochs is not None:
            return self.epochs >= options.epochs
        assert options.steps is not None
        return self.step >= options.steps

    def total_steps(self, options: TrainOptions) -> int:
        """The number of steps of the run; later epochs are assumed to have as many batches as this one."""
        if options.epochs is None:
            assert options.steps is not None
            return options.steps
        return self.step - self.index + max(1, options.epochs - self.epoch) * self.batches

    def is_due(self, every_steps: int, every_epochs: int | None = None) -> bool:
        """Whether something that happens every so many steps (0 for never) or epochs happens now."""
        if every_epochs is None:
            return every_steps > 0 and self.step % every_steps == 0
        return self.index == self.batches and (self.epoch + 1) % every_epochs == 0


def planned_steps(config: RunConfig, plan: BatchPlan) -> int:
    """The number of steps of a run, before it starts.

    If the length is given in epochs, every epoch is planned where the schedule depends on the number of steps.
    Otherwise each is assumed to have as many batches as the first: to plan all epochs of a large corpus takes minutes.
    """
    epochs = config.train.epochs
    if epochs is None:
        assert config.train.steps is not None
        return config.train.steps
    return plan.count_batches(epochs) if config.schedule.depends_on_length else epochs * len(plan.epoch(0))
