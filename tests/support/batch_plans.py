"""Where in a plan of batches a step is."""

from __future__ import annotations

from lamina.data.batches import BatchPlan


def locate(plan: BatchPlan, step: int) -> tuple[int, int]:
    """The epoch, and the number in it, of the batch at `step`, counted from 0."""
    epoch = 0
    while step >= len(plan.epoch(epoch)):
        step -= len(plan.epoch(epoch))
        epoch += 1
    return epoch, step
