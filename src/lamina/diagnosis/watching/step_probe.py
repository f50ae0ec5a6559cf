"""What one step of an optimiser does to the weight matrices: gradients, updates, and the condition of Adam's rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from lamina.diagnosis.measures import NotMeasurable, adam_conditioning
from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Result


class StepSizes(Result):
    """By matrix, such as `decoder.3.query`; those of one kind in one layer count as one."""

    gradients: dict[str, float]
    moved: dict[str, float]
    """|W_{t+1} − W_t|."""
    updates: dict[str, float]
    """The same ÷ |W_t|, where W_t is not zero."""
    rates: dict[str, float]
    """The learning rate of this step."""
    condition: Measure | None
    """Of Adam's update; None …"""
    unconditioned: str = ""
    """… for this reason."""


class StepProbe:
    """Made just before the step, finished just after it. Between the two it holds a copy of the weights."""

    def __init__(self, optimiser: Optimizer, matrices: Sequence[NamedMatrix]) -> None:
        self.optimiser = optimiser
        self.groups = {id(parameter): group for group in optimiser.param_groups for parameter in group["params"]}
        self.matrices = [each for each in matrices if id(each.parameter) in self.groups]
        self.before = {id(each.parameter): each.parameter.detach().clone() for each in self.matrices}

    @torch.no_grad()
    def finish(self) -> StepSizes:
        """Gradients are read here: after the step they are there, and without a loss scale, whoever takes that out."""
        trained = [(each, each.parameter.grad) for each in self.matrices]
        moved = [(each, gradient) for each, gradient in trained if gradient is not None and not gradient.is_sparse]
        gradients, weights, updates = [], [], []
        for each, gradient in moved:
            before = self.before[id(each.parameter)]
            gradients.append(norm_of(each.of(gradient)))
            weights.append(norm_of(each.of(before)))
            updates.append(norm_of(each.of(each.parameter.detach() - before)))
        numbers, count = fetch([*gradients, *weights, *updates]), len(moved)
        names = [matrix_label(each.name) for each, _ in moved]
        gradient_norms, weight_norms, update_norms = (
            _together(names, numbers[first : first + count]) for first in (0, count, 2 * count)
        )
        rates = [float(self.groups[id(each.parameter)]["lr"]) for each, _ in moved]
        condition, reason = self._condition()
        return StepSizes(
            gradients=gradient_norms,
            moved=update_norms,
            updates={name: norm / weight_norms[name] for name, norm in update_norms.items() if weight_norms[name]},
            rates=dict(zip(names, rates, strict=True)),
            condition=condition,
            unconditioned=reason,
        )

    def _condition(self) -> tuple[Measure | None, str]:
        if any(isinstance(each.parameter, DTensor) for each in self.matrices):
            return None, "the optimiser's state is sharded"
        try:
            return adam_conditioning.take(self.optimiser, self.matrices), ""
        except NotMeasurable as reason:
            return None, str(reason)


def matrix_label(name: MatrixName) -> str:
    """`decoder.3.query`, layers counted from 1; embeddings and heads keep their paths."""
    if name.layer is None:
        return name.path.removesuffix(".weight")
    return f"{name.stack}.{name.layer + 1}.{name.kind}"


def fetch(numbers: Sequence[Tensor]) -> list[float]:
    """Ask the device once. Norms of sharded tensors are first put together over all processes."""
    whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in numbers]
    if not whole:
        return []
    device = whole[0].device
    precision = torch.float32 if device.type == "mps" else torch.float64
    return torch.stack([each.to(device, precision) for each in whole]).tolist()


def _together(names: Sequence[str], norms: Sequence[float]) -> dict[str, float]:
    squares: dict[str, float] = defaultdict(float)
    for name, norm in zip(names, norms, strict=True):
        squares[name] += norm**2
    return {name: square**0.5 for name, square in squares.items()}
