"""What a model is worth on the validation split while it trains; a model whose loss is no number there has failed."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.tasks.base import SampleOutput, Task
from lamina.training.distributed.parallel import Parallel
from lamina.training.distributed.world import World
from lamina.training.divergence import Failed, is_finite


class Validation:
    """Processes measure together, for each needs the others' slices of the model; what the first finds counts."""

    def __init__(self, task: Task, model: Transformer, parallel: Parallel, world: World) -> None:
        self._task, self._model, self._parallel, self._world = task, model, parallel, world
        self._scores: tuple[int, dict[str, float]] | None = None  # the step they were taken at

    def losses(self, step: int) -> dict[str, float]:
        """The smoothed loss and the negative log-likelihood."""
        losses = self._task.total_losses(self._model, "valid")
        values = {"loss": losses.smoothed.item() / losses.count, "nll": losses.nll.item() / losses.count}
        return self._agreed(values, step)

    def scores(self, step: int) -> dict[str, float]:
        """The task's metrics, the losses among them; measured once a step."""
        if self._scores is None or self._scores[0] != step:
            try:
                with self._parallel.gathered():
                    values = self._task.evaluate(self._model, "valid")
            except UserError:
                self.losses(step)  # a search does not start from scores that are no numbers: then this has failed
                raise
            self._scores = step, self._agreed(values, step)
        return self._scores[1]

    def samples(self, count: int) -> list[SampleOutput]:
        """A few outputs of the model, where the task generates text."""
        with self._parallel.gathered():
            return self._task.samples(self._model, "valid", count)

    def _agreed(self, values: Mapping[str, float], step: int) -> dict[str, float]:
        agreed = {name: self._world.from_first(value) for name, value in values.items()}
        if not is_finite(agreed["nll"]):
            raise Failed(f"the validation loss after step {step} is not finite")
        return agreed
