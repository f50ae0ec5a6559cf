"""Validation while a model trains: when it is due, what it measures, and which step was the best so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.data.batches import OrderOptions
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.tasks.base import MAX_TOKENS, SampleOutput, Task
from lamina.training.config import TrainOptions
from lamina.training.distributed.parallel import Parallel
from lamina.training.distributed.world import World
from lamina.training.divergence import Diverged, is_finite
from lamina.training.length import Position


def check_splits(task: Task) -> None:
    """Refuse, before the first step, data that a later one would need and that is missing."""
    store = task.store
    for split in ("train", "valid"):
        if not any(len(store[name]) for name in store.sets(split)):
            raise UserError(
                f"{store.folder}: no examples in the split {split!r}, which training needs; prepare the data with "
                f"files for it, or with hold_out.valid=20, which takes one example in 20"
            )
    task.plan("valid", OrderOptions(max_tokens=MAX_TOKENS, shuffle=False, oversize="alone"))


class BestStep:
    """The best step so far by one metric. Its state is saved, so that a resumed run decides in the same way."""

    def __init__(self, metric: str, higher_is_better: bool, state: Mapping[str, Any] | None = None) -> None:
        self.metric, self._sign = metric, 1 if higher_is_better else -1
        known = state if state and state["name"] == metric else {}
        self.step: int | None = known.get("step")
        self.value: float | None = known.get("value")
        self.not_better: int = known.get("waited", 0)
        """The number of measurements without an improvement since the best step."""

    def state(self) -> dict[str, Any]:
        return {"name": self.metric, "step": self.step, "value": self.value, "waited": self.not_better}

    def update(self, step: int, value: float) -> bool:
        """Add the metric measured after a step; returns whether it is the best so far."""
        if self.value is not None and self._sign * value <= self._sign * self.value:
            self.not_better += 1
            return False
        self.step, self.value, self.not_better = step, value, 0
        return True


class Validation:
    """Measures the model on the validation split.

    All processes measure together, because each needs the others' shards of the model; the values of the first process
    are used. A loss that is not finite raises `Diverged`.
    """

    def __init__(self, options: TrainOptions, task: Task, model: Transformer, parallel: Parallel, world: World) -> None:
        self._options, self._task, self._model = options, task, model
        self._parallel, self._world = parallel, world
        self.best = self._new_best()
        self.last: tuple[int, float] | None = None
        """The step of the last validation, and its negative log-likelihood."""
        self._scores: tuple[int, dict[str, float]] | None = None  # with the step they were measured at

    def measure_if_due(self, position: Position) -> dict[str, float] | None:
        """The task's metrics or the losses, whichever is due; None if neither is."""
        options, step = self._options, position.step
        by_metric, is_last = options.best == "metric", position.has_reached(options)
        validation_is_due = position.is_due(options.validate_every, options.validate_every_epochs)
        evaluation_is_due = position.is_due(options.evaluate_every, options.evaluate_every_epochs)
        if by_metric and not (options.evaluate_every or options.evaluate_every_epochs):
            evaluation_is_due = validation_is_due
        if evaluation_is_due or (by_metric and is_last):
            return self.scores(step)
        return self.losses(step) if is_last or validation_is_due else None

    def losses(self, step: int) -> dict[str, float]:
        """The loss with label smoothing, and the negative log-likelihood."""
        losses = self._task.total_losses(self._model, "valid")
        values = {"loss": losses.smoothed.item() / losses.count, "nll": losses.nll.item() / losses.count}
        return self._agreed(values, step)

    def scores(self, step: int) -> dict[str, float]:
        """The task's metrics, including the losses; measured at most once per step."""
        if self._scores is None or self._scores[0] != step:
            try:
                with self._parallel.gathered():
                    values = self._task.evaluate(self._model, "valid")
            except UserError:
                self.losses(step)  # a search refuses scores that are not finite: then training has diverged
                raise
            self._scores = step, self._agreed(values, step)
        return self._scores[1]

    def measured(self, step: int) -> dict[str, float]:
        """The metrics of a step if they were measured; otherwise nothing."""
        return self._scores[1] if self._scores is not None and self._scores[0] == step else {}

    def samples(self, count: int) -> list[SampleOutput]:
        """A few outputs of the model, if the task generates text."""
        with self._parallel.gathered():
            return self._task.samples(self._model, "valid", count)

    def state(self) -> dict[str, Any]:
        return {"best": self.best.state(), "valid": self.last}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.best = self._new_best(state["best"])
        self.last = state.get("valid") and tuple(state["valid"])

    def _new_best(self, state: Mapping[str, Any] | None = None) -> BestStep:
        if self._options.best == "metric":
            return BestStep(self._task.metric, self._task.higher_is_better, state)
        return BestStep("nll", False, state)

    def _agreed(self, values: Mapping[str, float], step: int) -> dict[str, float]:
        agreed = {name: self._world.from_first(value) for name, value in values.items()}
        if not is_finite(agreed["nll"]):
            raise Diverged(f"the validation loss after step {step} is not finite")
        return agreed
