"""The watch: measures gradients, updates and streams every few steps, as `lamina.watch` does.

Its measurements are logged, kept in the run folder with every checkpoint, and turned into a diagnosis at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lamina.data.batches import BatchPlan
from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.watching.observation import Observation, read_observations, write_observations
from lamina.diagnosis.watching.spikes import BatchIdentity
from lamina.diagnosis.watching.watch import Watch
from lamina.errors import UserError
from lamina.training.callbacks.base import Callback

if TYPE_CHECKING:
    from lamina.training.loop import Training


class WatchModel(Callback):
    def __init__(self, options: DiagnoseOptions) -> None:
        self.options = options
        self._watch: Watch | None = None

    def on_start(self, training: Training) -> None:
        self._watch = Watch(
            training.model,
            training.optimiser,
            every=self.options.every,
            step=training.step,
            history=_read_history(training),
            options=self.options,
            on_warning=lambda trouble: training.display.note(str(trouble)),
        ).__enter__()

    def on_gradients(self, training: Training, loss: float, gradient_norm: float) -> None:
        if self._watch is not None:
            batch = partial(_identify, training.batches.plan, training.epoch, training.index)
            self._watch.record(loss, gradient_norm=gradient_norm, batch=batch)

    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        if self._watch is not None and (measured := self._watch.values()):
            training.log(measured)

    def on_checkpoint(self, training: Training) -> None:
        if self._watch is not None and self._watch.history and training.world.is_first:
            self._watch.complete_trace()
            write_observations(training.folder.observations, self._watch.history)

    def on_end(self, training: Training) -> None:
        if self._watch is None:
            return
        self._watch.close()
        if self._watch.history and training.world.is_first:
            self._watch.diagnosis(training.folder.path.name).write(training.folder.training_diagnosis)


def _identify(plan: BatchPlan, epoch: int, number: int) -> BatchIdentity:
    examples = tuple(int(each) for each in plan.epoch(epoch)[number])
    return BatchIdentity(epoch=epoch, number=number, examples=examples)


def _read_history(training: Training) -> list[Observation]:
    """Read the observations made before a resume; a damaged file is left out with a note and does not prevent it."""
    try:
        return read_observations(training.folder.observations, until=training.step)
    except (UserError, OSError) as error:
        training.display.note(str(error))
        return []
