"""Divergence is a result: when a run has failed, and where the first bad number came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from lamina.training.distributed.parallel import own

SMOOTHING = 0.98  # of the running loss
SHARE_OF_RUN = 10  # a tenth of the run above the start is a failure


class Failed(Exception):
    """The run diverged; the message says how."""


class Health:
    """Follows the training loss. Its state is a few numbers, so that a resumed run judges as an uninterrupted one."""

    def __init__(self, total_steps: int, state: Mapping[str, Any] | None = None) -> None:
        self.limit = max(20, total_steps // SHARE_OF_RUN)
        known = state or {}
        self.start: float | None = known.get("start")
        self.running: float | None = known.get("running")
        self.steps_above: int = known.get("steps_above", 0)

    def state(self) -> dict[str, Any]:
        return {"start": self.start, "running": self.running, "steps_above": self.steps_above}

    def follow(self, loss: float) -> None:
        """Take in the loss of a step; raise `Failed` if it has been above its start for a tenth of the run."""
        if self.start is None or self.running is None:
            self.start = self.running = loss
        self.running = SMOOTHING * self.running + (1 - SMOOTHING) * loss
        self.steps_above = self.steps_above + 1 if self.running > self.start else 0
        if self.steps_above >= self.limit:
            raise Failed(
                f"the loss has been above its start of {self.start:.3f} for {self.steps_above} steps "
                f"(now about {self.running:.3f})"
            )


def is_finite(value: Tensor | float) -> bool:
    return math.isfinite(value.item() if isinstance(value, Tensor) else value)


def name_bad_module(model: nn.Module, run: Callable[[], Any], gather: Callable[[str], list[str]]) -> str:
    """Run the step again and say where the first number that is none appears: forwards, or else backwards.

    All processes do so together; `gather` tells each what the others found.
    """
    with _watching(model) as found:
        run()
    outputs = [name for name in gather(found[0] if found else "") if name]
    if outputs:
        return f"the output of {outputs[0]}"
    gradients = [name for name in gather(_bad_gradient(model)) if name]
    if gradients:
        return f"the gradient of {gradients[0]}"
    return "no module when the step is run again"


def _bad_gradient(model: nn.Module) -> str:
    """The last parameter of which this process holds a bad gradient."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not own(parameter.grad).isfinite().all():
            return name
    return ""


@contextmanager
def _watching(model: nn.Module) -> Iterator[list[str]]:
    found: list[str] = []

    def hook_for(name: str) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            tensors = [part for part in _tensors(output) if part.is_floating_point()]
            if any(not part.isfinite().all() for part in tensors):
                found.append(name or "the model")

        return look

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
