"""Divergence: when a run counts as diverged, and the first module whose output or gradient is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from lamina.run_folder.records import Failure
from lamina.tasks.base import Inputs
from lamina.training.distributed.parallel import local_part

if TYPE_CHECKING:
    from lamina.training.loop import Training

SMOOTHING = 0.98  # of the running loss
SHARE_OF_RUN = 10  # a tenth of the run above the first loss is a divergence


class Diverged(Exception):
    """Training diverged; the message says how."""


class LossMonitor:
    """Detects divergence from the training loss. Its state is saved, so that a resumed run decides in the same way."""

    def __init__(self, total_steps: int, state: Mapping[str, Any] | None = None) -> None:
        self.limit = max(20, total_steps // SHARE_OF_RUN)
        known = state or {}
        self.first: float | None = known.get("start")
        self.running: float | None = known.get("running")
        self.steps_above: int = known.get("steps_above", 0)

    def state(self) -> dict[str, Any]:
        return {"start": self.first, "running": self.running, "steps_above": self.steps_above}

    def follow(self, loss: float) -> None:
        """Add the loss of a step; raise `Diverged` if its running mean exceeds the first for a tenth of the run."""
        if self.first is None or self.running is None:
            self.first = self.running = loss
        self.running = SMOOTHING * self.running + (1 - SMOOTHING) * loss
        self.steps_above = self.steps_above + 1 if self.running > self.first else 0
        if self.steps_above >= self.limit:
            raise Diverged(
                f"the loss has been above its start of {self.first:.3f} for {self.steps_above} steps "
                f"(now about {self.running:.3f})"
            )


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
    if training.world.is_first:
        failure = Failure(
            step=training.step + 1,
            epoch=epoch,
            batch=index,
            examples=training.batches.plan.epoch(epoch)[index].tolist(),
            loss=str(loss),
            gradient_norm=str(gradient_norm),
            first_bad=where,
        )
        training.folder.failure.write(failure)
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
