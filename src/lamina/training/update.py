"""The result of one update of the weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Update:
    """The result of one update of the weights."""

    loss: float
    """The loss with label smoothing; it and `nll` are means over the labels of the global batch, before the update."""
    nll: float
    labels: int
    gradient_norm: float
    """The norm of the gradient of all weights, before clipping."""
    applied: bool
    """False if gradients overflowed in fp16, so that the step was skipped."""
