"""What a run folder says of its run, and the scores of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RunSummary:
    """What is worth telling of a run."""

    name: str
    state: str
    reason: str
    step: int
    best_step: int | None
    best_nll: float | None
    final: Mapping[str, float]
    """The task's metrics at the end."""
    best_metric: tuple[str, float, int] | None = None
    """The task's own metric where it was best while training, and the step; None where it was not measured."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics by set, and the signatures of those that have one."""

    scores: Mapping[str, Mapping[str, float]]
    signatures: Mapping[str, str]
