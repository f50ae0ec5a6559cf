from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures import output_change
from lamina.diagnosis.measures.output_change import change, one_step, random_signs
from lamina.diagnosis.results import Series
from support.recorded import line


class Sum(nn.Module):
    """Wx with W = 1, behind a dropout that must be off."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(outputs, 2, dtype=torch.float64))
        self.dropout = nn.Dropout(0.9)

    def forward(self) -> Tensor:
        x = torch.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
        return self.dropout(x @ self.weight.T)


def test_the_token_mean_of_the_squared_distance() -> None:
    model = Sum()
    moved = change(model, lambda model: model(), [model.weight], random_signs(seed=3, size=0.5))
    assert moved == pytest.approx((0.5**2 + 1.5**2) / 2)  # whatever the signs
    assert torch.equal(model.weight, torch.ones(1, 2, dtype=torch.float64))
    assert model.dropout.training


def test_signs_differ_but_not_between_calls() -> None:
    one, two = Sum(64), Sum(64)
    with torch.no_grad():
        for model in (one, two):
            random_signs(seed=1, size=0.5)(model, [model.weight])
    assert torch.equal(one.weight, two.weight)
    assert set(one.weight.flatten().tolist()) == {0.5, 1.5}


def test_one_step_of_adam_moves_every_weight_by_the_rate() -> None:
    """And leaves the gradients that were there, and an unused matrix, alone."""
    model, unused = Sum(), nn.Parameter(torch.ones(1, 1))
    model.weight.grad = torch.full_like(model.weight, 7.0)
    move = one_step(lambda model: model().square().sum(), rate=0.25)
    moved = change(model, lambda model: model(), [model.weight, unused], move)
    assert moved == pytest.approx((0.25**2 + 0.75**2) / 2, rel=1e-6)
    assert torch.equal(model.weight.grad, torch.full_like(model.weight, 7.0))
    assert torch.equal(model.weight, torch.ones(1, 2, dtype=torch.float64))
    assert unused.grad is None


def test_the_fits() -> None:
    lines = (
        Series(label="a", x=(2, 4, 8), y=(5, 9, 17)),
        Series(label="b", x=(2, 4, 8), y=(math.log(2), math.log(4), math.log(8))),
    )
    measure = output_change.MEASURE.model_copy(update={"measured": lines})
    facts = output_change.conclude(measure).facts
    assert facts["a R² of n"] == pytest.approx(1)
    assert facts["b R² of ln n"] == pytest.approx(1)
    assert facts["a R² of ln n"] == pytest.approx(27 / 28)  # by hand
    drawn = output_change.conclude(measure, "post").theory
    assert line(drawn, "a: best line in n") == pytest.approx((5, 9, 17))
