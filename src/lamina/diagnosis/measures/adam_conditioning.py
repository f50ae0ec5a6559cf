"""How strongly Adam's update reacts to a small change of the gradient.

    u = α·m̂ ÷ (√v̂ + ε),   κ = √Σ_i (∂u/∂g_i)²,   and max_i |∂u/∂g_i|, the operator norm, beside it

    ∂u/∂g = α/(1−β₁ᵗ) · [ (1−β₁) ÷ (√v̂ + ε)  −  m_t·(1−β₂)·g ÷ ((1−β₂ᵗ)·√v̂·(√v̂ + ε)²) ]

Xie et al. 2023, section 3.1, Theorem 3.2 and figure 3. Their equation 6 prints a plus between the terms: it is a minus,
as the derivative of the quotient has it; at g = v = 0 only one term is left. Their equation 3 lacks a square under the
sum. With vanishing gradients κ ≈ α·√d ÷ ε, 3200 for d = 1024, α = 1e-4, ε = 1e-6: a warm-up makes α, and so κ, small.
Rows that never had a gradient (v = 0), as those of words that did not occur, do not count, unless no row had one.

Facts of the model: `κ`, `operator norm`, and Adam's `learning rate` and `ε`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series, SeriesRole
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.matrices import NamedMatrix

AT_ONCE = 2**18
"""The numbers of a matrix that are computed at once: so many stay in the processor's cache."""
CONDITION_NUMBER = FactName("κ")
OPERATOR_NORM = FactName("operator norm")
LEARNING_RATE = FactName("learning rate")
EPSILON = FactName("ε")
WITHOUT_GRADIENT = "without gradient"
"""The quantity of the predicted lines."""


class AdamConditioning(Measure):
    title = "Conditioning of Adam's update"
    formula = "κ = √Σ(∂u/∂gᵢ)²"
    source = "Xie et al. 2023, Theorem 3.2 and figure 3"
    look_for = (
        "Where κ is in the hundreds or thousands, noise in a vanishing gradient becomes an update of full size. A "
        "warm-up lowers it. Dashed: α·√d ÷ ε, its value without any gradient."
    )
    axes = Axes(x="layer", y="κ", log_y=True)
    needs = ("optimiser", "history")
    position = 120

    def take(self, evidence: Evidence) -> Measurement:
        """Measure the state of the optimiser; of a watched model, the last watched step is used."""
        if evidence.optimiser is not None:
            return self.of(evidence.optimiser, find_layers(require(evidence.model)).matrices)
        last = require(evidence.history)[-1]
        if last.conditioning is None:
            raise NotMeasurable(last.no_conditioning)
        return last.conditioning

    def of(self, optimiser: Optimizer, matrices: Sequence[NamedMatrix]) -> Measurement:
        """κ of the step that an optimiser has just made, by stack and layer."""
        groups = {parameter: group for group in optimiser.param_groups for parameter in group["params"]}
        squares, without_gradient, largest = [], [], 0.0
        for matrix in matrices:
            group = groups.get(matrix.parameter)
            found = None if group is None else sensitivity_of(optimiser, group, matrix)
            if group is not None and found is not None:
                squares.append((matrix, found.square))
                without_gradient.append((matrix, found.numbers * _without_gradient(group) ** 2))
                largest = max(largest, found.largest)
        if not squares:
            raise NotMeasurable(
                f"{type(optimiser).__name__} is not Adam, or has made no step; the theorem is about Adam's"
            )
        first = optimiser.param_groups[0]
        facts = {
            CONDITION_NUMBER: sum(square for _, square in squares) ** 0.5,
            OPERATOR_NORM: largest,
            LEARNING_RATE: float(first["lr"]),
            EPSILON: float(first["eps"]),
        }
        return self.measurement(
            [*_by_layer(squares), *_by_layer(without_gradient, WITHOUT_GRADIENT, "predicted")],
            facts=[Fact(name=name, value=value) for name, value in facts.items()],
        )


@dataclass(frozen=True)
class AdamRule:
    """Adam's update rule."""

    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6

    def sensitivity(self, gradient: Tensor, first: Tensor, second: Tensor, step: int | Tensor) -> Tensor:
        """∂u/∂g for the gradient of step t (from 1) and the moments m_t and v_t, which it is part of."""
        one, two = self.betas
        correction = 1 - two**step
        root = (second / correction).sqrt()
        scale = self.learning_rate / (1 - one**step)
        direct = scale * (1 - one) / (root + self.eps)
        # Where the second moment is zero so is the gradient, and this term with it.
        through_root = scale * first * (1 - two) * gradient / (correction * root * (root + self.eps).square())
        return direct - torch.where(root > 0, through_root, 0.0)

    def moments(self, gradient: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """m_t and v_t from those of the step before."""
        return torch.lerp(gradient, first, self.betas[0]), torch.lerp(gradient.square(), second, self.betas[1])


@dataclass(frozen=True)
class MatrixSensitivity:
    """∂u/∂g of the rows of one matrix that ever had a gradient; of all rows where none had."""

    square: float
    """Σ(∂u/∂g)²."""
    largest: float
    numbers: int


@torch.no_grad()
def sensitivity_of(optimiser: Optimizer, group: Mapping[str, Any], matrix: NamedMatrix) -> MatrixSensitivity | None:
    """The sensitivity of one matrix, computed a few rows at a time; None where there is none."""
    if not _has_rule(optimiser, group, matrix):
        return None
    second = matrix.of(optimiser.state[matrix.parameter]["exp_avg_sq"])
    norms, peaks = [], []
    step = max(1, AT_ONCE * len(second) // second.numel())
    for start in range(0, len(second), step):
        found = sensitivity(optimiser, group, matrix, slice(start, start + step)).flatten(1)
        norms.append(torch.linalg.vector_norm(found, dim=1))
        peaks.append(torch.linalg.vector_norm(found, inf, dim=1))
    trained = second.flatten(1).amax(1) > 0
    rows = trained if bool(trained.any()) else torch.ones_like(trained)
    square = torch.cat(norms)[rows].double().square().sum().item()
    return MatrixSensitivity(square, torch.cat(peaks)[rows].max().item(), int(rows.sum()) * second[0].numel())


@torch.no_grad()
def sensitivity(
    optimiser: Optimizer, group: Mapping[str, Any], matrix: NamedMatrix, rows: slice = slice(None)
) -> Tensor:
    """∂u/∂g of rows of one matrix for the step just made, before its gradient is cleared.

    Without a gradient, ∂u/∂g is that of a next step whose gradient is zero.
    """
    one, two = map(float, group["betas"])
    rule = AdamRule(float(group["lr"]), (one, two), float(group["eps"]))
    state = optimiser.state[matrix.parameter]
    first, second = (matrix.of(state[name])[rows] for name in ("exp_avg", "exp_avg_sq"))
    if matrix.parameter.grad is None:
        zero = torch.zeros_like(first)
        return rule.sensitivity(zero, *rule.moments(zero, first, second), state["step"] + 1)
    gradient = matrix.of(matrix.parameter.grad)[rows]
    if not group["decoupled_weight_decay"]:
        gradient = gradient + group["weight_decay"] * matrix.of(matrix.parameter)[rows]
    return rule.sensitivity(gradient, first, second, state["step"])


def _has_rule(optimiser: Optimizer, group: Mapping[str, Any], matrix: NamedMatrix) -> bool:
    """Whether the optimiser is an Adam that has made a step, without amsgrad, whose second moment is a maximum, which
    the theorem does not cover."""
    state = optimiser.state.get(matrix.parameter, {})
    return isinstance(optimiser, Adam) and not group["amsgrad"] and "exp_avg" in state  # AdamW is an Adam


def _without_gradient(group: Mapping[str, Any]) -> float:
    return float(group["lr"] / group["eps"]) if group["eps"] else float("inf")


def _by_layer(
    squares: Sequence[tuple[NamedMatrix, float]], quantity: str = "", role: SeriesRole = "measured"
) -> list[Series]:
    """One series per stack: the roots of the sums by layer."""
    table: dict[str, dict[int, float]] = {}
    for matrix, square in squares:
        if matrix.name.layer is not None:
            layers = table.setdefault(matrix.name.stack, {})
            layers[matrix.name.layer + 1] = layers.get(matrix.name.layer + 1, 0.0) + square
    return [
        Series(
            location=Location(stack=stack),
            quantity=quantity,
            role=role,
            x=tuple(sorted(layers)),
            y=tuple(layers[layer] ** 0.5 for layer in sorted(layers)),
        )
        for stack, layers in table.items()
    ]
