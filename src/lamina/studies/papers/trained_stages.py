"""A run's model before and after training, for what studies measure of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from lamina.diagnosis.recording.passes import Pass
from lamina.run_folder.checkpoints import LATEST
from lamina.runs.diagnose import Extent, subjects_of
from lamina.runs.run import Run

BEFORE, AFTER = "before training", "after training"


@dataclass(frozen=True)
class TrainedStage:
    """The model at one of the two stages, with the training batches it is measured on."""

    name: str
    model: nn.Module
    passes: Sequence[Pass]
    optimiser: Optimizer
    """In the state of this stage."""


def stages_of(run: Run, *, batches: int = 4, tokens: int = 512) -> Iterator[TrainedStage]:
    """The model with the seed of the run before its first step, and after the last one.

    They are copies: a study may change their weights, and the others still measure the trained ones.
    """
    extent = Extent(batches=batches, tokens=tokens, checkpoint=LATEST, depths=False)
    for subject, name in zip(subjects_of(Run(run.path), extent), (BEFORE, AFTER), strict=True):
        model = subject.build(run.config.seed)
        optimiser = subject.optimiser_of(model)
        assert optimiser is not None
        yield TrainedStage(name, model, subject.passes, optimiser)
