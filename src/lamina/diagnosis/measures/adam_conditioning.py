"""How strongly Adam's update reacts to a small change of the gradient.

    u = α·m̂ ÷ (√v̂ + ε),   κ = √Σ_i (∂u/∂g_i)²,   and max_i |∂u/∂g_i|, the operator norm, beside it

    ∂u/∂g = α/(1−β₁ᵗ) · [ (1−β₁) ÷ (√v̂ + ε)  −  m_t·(1−β₂)·g ÷ ((1−β₂ᵗ)·√v̂·(√v̂ + ε)²) ]

Xie et al. 2023, section 3.1, Theorem 3.2 and figure 3. Their equation 6 prints a plus between the terms: it is a minus,
as the derivative of the quotient has it; at g = v = 0 only one term is left. Their equation 3 lacks a square under the
sum. With vanishing gradients κ ≈ α·√d ÷ ε, 3200 for d = 1024, α = 1e-4, ε = 1e-6: a warm-up makes α, and so κ, small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Series

DEVIATIONS = (0.0, 1e-8, 2e-8, 5e-8, 1e-7)
MEASURE = Measure(
    key="adam-conditioning",
    title="Conditioning of Adam's update",
    formula="κ = √Σ(∂u/∂gᵢ)²",
    source="Xie et al. 2023, Theorem 3.2 and figure 3",
    look_for="Where κ is in the hundreds or thousands, noise in a vanishing gradient becomes an update of full size. "
    "A warm-up lowers it; the broken line is α·√d ÷ ε, its value without any gradient.",
    x_label="layer",
    y_label="κ",
    log_y=True,
)


@dataclass(frozen=True)
class Rule:
    """The numbers of Adam."""

    rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6

    def sensitivity(self, gradient: Tensor, first: Tensor, second: Tensor, step: int | Tensor) -> Tensor:
        """∂u/∂g for the gradient of step t (from 1) and the moments m_t and v_t, which it is part of."""
        one, two = self.betas
        correction = 1 - two**step
        root = (second / correction).sqrt()
        scale = self.rate / (1 - one**step)
        direct = scale * (1 - one) / (root + self.eps)
        # Where the second moment is zero so is the gradient, and this term with it.
        through_root = scale * first * (1 - two) * gradient / (correction * root * (root + self.eps).square())
        return direct - torch.where(root > 0, through_root, 0.0)

    def moments(self, gradient: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """m_t and v_t from those of the step before."""
        return torch.lerp(gradient, first, self.betas[0]), torch.lerp(gradient.square(), second, self.betas[1])


def simulate(
    rule: Rule = Rule(),  # noqa: B008  (frozen)
    dim: int = 1024,
    steps: int = 20,
    deviations: Sequence[float] = DEVIATIONS,
    seed: int = 0,
) -> Measure:
    """Figure 3: gradients drawn from N(0, σ²), κ of the update that each of them makes."""
    times = tuple(range(1, steps + 1))
    measured = []
    for deviation in deviations:
        generator = torch.Generator().manual_seed(seed)
        first, second = torch.zeros(2, dim, dtype=torch.float64)
        found = []
        for step in times:
            gradient = deviation * torch.randn(dim, generator=generator, dtype=torch.float64)
            first, second = rule.moments(gradient, first, second)
            found.append(rule.sensitivity(gradient, first, second, step).norm().item())
        measured.append(Series(label=f"σ = {deviation:g}", x=times, y=tuple(found)))
    one = rule.betas[0]
    still = tuple(rule.rate * (1 - one) / (1 - one**step) * dim**0.5 / rule.eps for step in times)
    theory = (Series(label="without gradient", x=times, y=still, dashes=True),)
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": theory, "x_label": "step"})


def take(optimiser: Optimizer, matrices: Sequence[NamedMatrix]) -> Measure:
    """κ of the step that an optimiser has just made, by stack and layer, with its rate and ε."""
    groups = {parameter: group for group in optimiser.param_groups for parameter in group["params"]}
    squares, still, largest = [], [], 0.0
    for matrix in matrices:
        group = groups.get(matrix.parameter)
        found = None if group is None else sensitivity(optimiser, group, matrix)
        if group is not None and found is not None:
            squares.append((matrix, norm_of(found).item() ** 2))
            still.append((matrix, found.numel() * _without_gradient(group) ** 2))
            largest = max(largest, found.abs().max().item())
    if not squares:
        raise NotMeasurable(f"{type(optimiser).__name__} is not Adam, or has made no step; the theorem is about Adam's")
    first = optimiser.param_groups[0]
    facts = {"κ": sum(square for _, square in squares) ** 0.5, "operator norm": largest}
    facts |= {"rate": float(first["lr"]), "eps": float(first["eps"])}
    return MEASURE.model_copy(
        update={"measured": _lines(squares), "theory": _lines(still, " without gradient"), "facts": facts}
    )


@torch.no_grad()
def sensitivity(optimiser: Optimizer, group: Mapping[str, Any], matrix: NamedMatrix) -> Tensor | None:
    """∂u/∂g of one matrix for the step just made, while its gradient is still there.

    Without a gradient it is that of a next step whose gradient is zero. None if the optimiser is not Adam, or has made
    no step; with amsgrad the second moment is a maximum, which the theorem does not know.
    """
    state = optimiser.state.get(matrix.parameter, {})
    if not isinstance(optimiser, Adam) or group["amsgrad"] or "exp_avg" not in state:  # AdamW is an Adam
        return None
    one, two = map(float, group["betas"])
    rule = Rule(float(group["lr"]), (one, two), float(group["eps"]))
    first, second, weight = (matrix.of(each) for each in (state["exp_avg"], state["exp_avg_sq"], matrix.parameter))
    if matrix.parameter.grad is None:
        zero = torch.zeros_like(first)
        return rule.sensitivity(zero, *rule.moments(zero, first, second), state["step"] + 1)
    gradient = matrix.of(matrix.parameter.grad)
    if not group["decoupled_weight_decay"]:
        gradient = gradient + group["weight_decay"] * weight
    return rule.sensitivity(gradient, first, second, state["step"])


def _without_gradient(group: Mapping[str, Any]) -> float:
    return float(group["lr"] / group["eps"]) if group["eps"] else float("inf")


def _lines(squares: Sequence[tuple[NamedMatrix, float]], suffix: str = "") -> tuple[Series, ...]:
    """One line per stack: the roots of the sums by layer."""
    table: dict[str, dict[int, float]] = {}
    for matrix, square in squares:
        if matrix.name.layer is not None:
            layers = table.setdefault(matrix.name.stack, {})
            layers[matrix.name.layer + 1] = layers.get(matrix.name.layer + 1, 0.0) + square
    return tuple(
        Series(
            label=stack + suffix,
            x=tuple(sorted(layers)),
            y=tuple(layers[layer] ** 0.5 for layer in sorted(layers)),
            dashes=bool(suffix),
        )
        for stack, layers in table.items()
    )
