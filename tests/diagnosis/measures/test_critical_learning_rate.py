"""The measure `critical-learning-rate`."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.critical_learning_rate import (
    CRITICAL,
    MULTIPLE,
    CriticalLearningRate,
    critical_multiple,
    search,
)
from support.recorded import fact


class Quadratic(nn.Module):
    """L = ½·c·w²: gradient descent from w overshoots from η = 2 ÷ c on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1))

    def forward(self) -> Tensor:
        return 5.0 * self.weight.square().sum()  # c = 10


@pytest.mark.parametrize(("rate", "maximise"), [(0.01, False), (0.01, True), (50.0, False)])
def test_of_a_parabola_it_is_two_over_the_curvature(rate: float, maximise: bool) -> None:
    model = Quadratic()
    optimiser = SGD(model.parameters(), lr=rate, maximize=maximise)
    evidence = Evidence(model=model, passes=[lambda model: model()], optimiser=optimiser)
    found = CriticalLearningRate().take(evidence)
    if maximise:
        assert fact(found, MULTIPLE) == 0.0
    else:
        assert 0.2 / 2 < fact(found, CRITICAL) <= 0.2 * 2 * 1.001, "to within the factor of two of the search"
    assert model.weight.item() == 1.0


def test_the_smallest_multiple_is_searched_by_a_plain_scan() -> None:
    loss = lambda c: 1 - c + c**2 / 40  # noqa: E731  rises from c = 40 on
    losses = search(loss)
    assert len(losses) <= 8
    rising = [c for c in sorted(losses) if c and loss(c) > 1]
    assert critical_multiple(losses) == rising[0]
    assert 40 <= rising[0] <= 80


def test_a_loss_that_never_rises() -> None:
    assert critical_multiple(search(lambda c: -c)) == inf
