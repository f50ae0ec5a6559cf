from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.output_change import OutputChange, change, random_signs
from support.recorded import fact, line


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


class Cubes(nn.Module):
    """Its output is a chosen function of its weight."""

    def __init__(self, output: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1))
        self.output = output


@pytest.mark.parametrize(("values", "fits"), [((5, 9, 17), "n"), ((math.log(2), math.log(4), math.log(8)), "ln n")])
def test_the_fits(values: tuple[float, ...], fits: str) -> None:
    """A model of n layers moves by a given distance."""
    distances = dict(zip((2, 4, 8), values, strict=True))

    def move(model: nn.Module, weights: object) -> None:
        model.moved = True

    def output(model: nn.Module) -> Tensor:
        return torch.tensor([[model.output**0.5 if getattr(model, "moved", False) else 0.0]])

    found = OutputChange().against_depth(
        lambda seed, depth: Cubes(distances[depth]),
        output,
        lambda model: [model.weight],
        depths=(2, 4, 8),
        sublayers_per_layer=1,
        placement="post" if fits == "n" else "pre",
        move=move,
    )
    assert fact(found, f"R² of {fits}", quantity="noise") == pytest.approx(1)
    if fits == "n":
        assert fact(found, "R² of ln n") == pytest.approx(27 / 28)  # by hand
    assert line(found, role="predicted", quantity=f"line in {fits}") == pytest.approx(values, rel=1e-5)
