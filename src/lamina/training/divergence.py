"""Divergence: when a run counts as diverged or failed, and the first module whose output or gradient is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from lamina.run_folder.records import Failure
from lamina.run_folder.status import RunState
from lamina.tasks.base import Inputs
from lamina.training.distributed.parallel import local_part

if TYPE_CHECKING:
    from lamina.training.loop import Training

SMOOTHING = 0.98  # of the running loss, and of the spread of batches
SHARE_OF_RUN = 10  # a tenth of the run above the first loss is a divergence
DEVIATIONS = 4
"""The first loss is that of one batch. The running loss has to exceed it by this number of standard deviations of
batches, so that a first batch of easy examples is no divergence."""
FEWEST_STEPS = 200
"""A shorter run cannot be expected to reach the loss of a unigram model. An update of Adam moves a weight by about the
learning rate η, and so a logit, a product with a normalised vector of d numbers, by about ηd: 0.06 (η = 0.001, d = 64)
to 0.26 (0.0005, 512). From equal logits to the frequencies of V tokens they must move by about ln V, 7 to 10."""


class Diverged(Exception):
    """Training diverged; the message says how."""


class LossMonitor:
    """Detects divergence from the training loss. Its state is saved, so that a resumed run decides in the same way."""

    def __init__(self, total_steps: int, state: Mapping[str, Any] | None = None) -> None:
        self.limit = max(20, total_steps // SHARE_OF_RUN)
        known = state or {}
        self.earlier_limit: int | None = known.get("limit")
        """The limit of the run before it was resumed; None if there is none, or an earlier version saved it."""
        self.first: float | None = known.get("start")
        self.running: float | None = known.get("running")
        self.last: float | None = known.get("last", self.running)
        self.difference: float = known.get("difference", 0.0)
        """The mean absolute difference of the losses of successive steps, which a trend hardly changes."""
        self.differences: int = known.get("differences", 0)
        self.steps_above: int = known.get("steps_above", 0)

    def state(self) -> dict[str, Any]:
        return {
            "start": self.first,
            "running": self.running,
            "last": self.last,
            "difference": self.difference,
            "differences": self.differences,
            "steps_above": self.steps_above,
            "limit": self.limit,
        }

    def notes(self) -> Iterator[str]:
        """A note if the run was resumed with another number of steps, and so with another limit."""
        if self.earlier_limit not in (None, self.limit):
            yield (
                f"train.steps has changed: the run now counts as diverged after {self.limit:,} steps above its first "
                f"loss, formerly after {self.earlier_limit:,}"
            )

    def follow(self, loss: float) -> None:
        """Add the loss of a step; raise `Diverged` if its running mean exceeds the first for a tenth of the run."""
        if self.first is None or self.running is None or self.last is None:
            self.first = self.running = self.last = loss
            return
        self.running = SMOOTHING * self.running + (1 - SMOOTHING) * loss
        self.differences += 1
        weight = max(1 - SMOOTHING, 1 / self.differences)  # the mean of all differences until there are many
        self.difference += weight * (abs(loss - self.last) - self.difference)
        self.last = loss
        self.steps_above = self.steps_above + 1 if self.running > self.first + self._margin(self.first) else 0
        if self.steps_above >= self.limit:
            raise Diverged(
                f"the loss has been above its start of {self.first:.3f}, by more than batches differ, for "
                f"{self.steps_above} steps (now about {self.running:.3f})"
            )

    def _margin(self, first: float) -> float:
        """How far the running loss may exceed the first: some standard deviations, but no more than the first loss.

        The losses of a run that explodes may differ by more than they exceed the first. The standard deviation is that
        of normally distributed losses with this mean difference.
        """
        return min(DEVIATIONS * self.difference * math.sqrt(math.pi) / 2, abs(first))


def judge_end(failure: str, step: int, warmup_steps: int) -> tuple[RunState, str]:
    """The state of a run that has ended, and the reason if it is not `finished`.

    failure: why the task calls the model a failure, see `Task.describe_failure`; empty if it does not. Such a run has
        failed, unless it was too short to become better.
    """
    if not failure:
        return "finished", ""
    if step < warmup_steps:
        return "too short", (
            f"{failure}, but the run ended at step {step:,} of a warm-up of {warmup_steps:,}; to judge it, raise "
            "train.steps or lower schedule.warmup_steps"
        )
    if step < FEWEST_STEPS:
        return (
            "too short",
            f"{failure}, but {step:,} steps are too few to judge it; raise train.steps to {FEWEST_STEPS:,} or more",
        )
    return "failed", failure


def is_finite(value: Tensor | float) -> bool:
    return math.isfinite(value.item() if isinstance(value, Tensor) else value)


def explain_divergence(
    training: Training, micro_batches: Sequence[Inputs], labels: int, loss: float, gradient_norm: float
) -> Diverged:
    """Run a step whose loss or gradient is not finite again to find the module; write `Failure` and a checkpoint.

    The weights are those before the step.
    """
    training.optimiser.zero_grad(set_to_none=True)
    where = name_bad_module(training.model, lambda: training.backward(micro_batches, labels), training.world.gather)
    epoch, index = training.epoch, training.index
    failure = Failure(
        step=training.step + 1,
        epoch=epoch,
        batch=index,
        examples=training.batches.plan.epoch(epoch)[index].tolist(),
        loss=str(loss),
        gradient_norm=str(gradient_norm),
        first_bad=where,
    )
    training.world.on_first(lambda: training.folder.failure.write(failure))
    training.save()
    what = "gradient" if is_finite(loss) else "loss"
    step = f"step {training.step + 1} (epoch {epoch}, batch {index})"
    scale = training.precision.at_smallest_scale if is_finite(loss) else ""
    return Diverged(f"the {what} of {step} is not finite{scale}, first in {where}")


def name_bad_module(model: nn.Module, run: Callable[[], Any], gather: Callable[[str], list[str]]) -> str:
    """Run the step again and return the first module whose output or gradient is NaN or infinite.

    All processes call it together; `gather` returns what each of them found.
    """
    with _bad_outputs(model) as found:
        run()
    outputs = [name for name in gather(found[0] if found else "") if name]
    if outputs:
        return f"the output of {outputs[0]}"
    gradients = [name for name in gather(_bad_gradient(model)) if name]
    if gradients:
        return f"the gradient of {gradients[0]}"
    return "no module when the step is run again"


def _bad_gradient(model: nn.Module) -> str:
    """The last parameter whose gradient, as far as this process holds it, is not finite."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not local_part(parameter.grad).isfinite().all():
            return name
    return ""


@contextmanager
def _bad_outputs(model: nn.Module) -> Iterator[list[str]]:
    """The modules whose output is not finite, in the order in which they ran."""
    found: list[str] = []

    def hook_for(name: str) -> Callable[..., None]:
        def check(module: nn.Module, inputs: Any, output: Any) -> None:
            tensors = [part for part in _tensors(output) if part.is_floating_point()]
            if any(not part.isfinite().all() for part in tensors):
                found.append(name or "the model")

        return check

    hooks = [module.register_forward_hook(hook_for(name)) for name, module in model.named_modules()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in _tensors(part)]
    return []
