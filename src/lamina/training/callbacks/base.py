"""The interface of a callback: a subclass overrides the events it needs.

class PrintBest(Callback):
    def on_validation(self, training, values):
        print(training.step, values["nll"], training.validation.best.step)

lamina.train("own.toml", callbacks=[PrintBest()])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.training.loop import Training


class Callback:
    """Base class of callbacks: its methods are called at the events of a run and do nothing unless overridden.

    All processes of a run call the callbacks at the same points. A callback that writes files does so only where
    `training.world.is_first`. `training` has the config, task, model, optimiser, step and epoch; a callback that
    changes them, or draws random numbers without restoring the generator, changes the result of the run.
    """

    def on_start(self, training: Training) -> None:
        """Called before the first update, after everything is built and a checkpoint, if there is one, is restored."""

    def on_gradients(self, training: Training, loss: float, gradient_norm: float) -> None:
        """Called before every update, with the loss and the norm of the whole gradient before clipping."""

    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        """Called after every update.

        values: `loss`, `nll`, `learning_rate`, `gradient_norm`, `tokens_per_second`, and `epoch`, the number of epochs
            done, with a fraction.
        """

    def on_log(self, training: Training, values: Mapping[str, Any]) -> None:
        """Called whenever `training.log` writes a line to metrics.jsonl, with the values of that line."""

    def on_validation(self, training: Training, values: Mapping[str, float]) -> None:
        """Called after every validation with `loss`, `nll`, and the task's metrics if they were measured."""

    def on_checkpoint(self, training: Training) -> None:
        """Called before a checkpoint is written."""

    def on_end(self, training: Training) -> None:
        """Called after the last update, also if the run diverged, was interrupted or raised an error."""
