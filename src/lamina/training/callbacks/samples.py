"""Samples: a few outputs of the model at every validation, in samples.jsonl of the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lamina.training.callbacks.base import Callback

if TYPE_CHECKING:
    from lamina.training.loop import Training


class WriteSamples(Callback):
    """Writes `count` outputs, each with its source and reference, if the task generates text."""

    def __init__(self, count: int) -> None:
        self.count = count

    def on_validation(self, training: Training, values: Mapping[str, float]) -> None:
        outputs = training.validation.samples(self.count)
        if outputs and training.world.is_first:
            training.folder.samples.append(training.step, outputs)
