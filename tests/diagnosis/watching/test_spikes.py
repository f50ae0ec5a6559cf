"""Spikes: what counts as one, and where it comes from."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.watching.spikes import BatchIdentity, SpikeDetector, SpikeOptions, find_excess, moments


def test_a_spike_is_more_than_six_deviations_above_the_last_values() -> None:
    detector, draw = SpikeDetector(SpikeOptions()), random.Random(1)
    values = [2 + 0.1 * draw.gauss(0, 1) for _ in range(400)]
    assert [detector.add(each) for each in values] == [None] * 400
    mean, deviation = np.mean(values[-128:]), np.std(values[-128:])
    assert detector.add(float(mean + 5.9 * deviation)) is None
    found = detector.add(4.0)
    assert found is not None
    assert found[0] == pytest.approx(2, abs=0.05)
    assert found[1] == pytest.approx(0.1, rel=0.2)


def test_several_high_steps_are_one_spike_and_the_next_spike_is_seen() -> None:
    detector, draw = SpikeDetector(SpikeOptions()), random.Random(2)

    def quiet(count: int) -> list[object]:
        return [detector.add(2 + 0.1 * draw.gauss(0, 1)) for _ in range(count)]

    quiet(100)
    assert [detector.add(50.0) is not None for _ in range(3)] == [True, False, False]
    assert quiet(20) == [None] * 20
    assert detector.add(50.0) is not None, "the first spike does not hide the second"
    assert [detector.add(9.0) is not None for _ in range(200)].count(True) <= 1, (
        "a higher level is not a spike for ever"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_too_few_values_equal_ones_and_values_that_are_not_finite(value: float) -> None:
    detector = SpikeDetector(SpikeOptions(min_observed=8))
    assert [detector.add(each) for each in (1.0, 1.1, 9.0, 80.0, 900.0, 1e6, 1e7)] == [None] * 7
    same = SpikeDetector(SpikeOptions(min_observed=8))
    assert [same.add(1.0) for _ in range(20)] == [None] * 20
    assert same.add(value) is None
    assert same.add(1.0 + 1e-12) is None, "nothing can be said about values that never varied"


def test_the_excess_is_attributed_to_layers_and_parameters() -> None:
    places = [Location(stack="h", layer=1, module="h.0.a"), Location(stack="h", layer=2, module="h.1.a")]
    places += [Location(stack="h", layer=2, module="h.1.b"), Location(module="head")]
    usual = np.array([1.0, 1.0, 1.0, 3.0])
    worst, share, first = find_excess(np.array([1.0, 3.0, 2.0, 3.0]), usual, places)
    assert (worst, share) == (Location(stack="h", layer=2), 1.0)
    assert first == [(1, pytest.approx(8 / 11)), (2, pytest.approx(3 / 11))]
    assert find_excess(usual, usual, places)[2] == []


def test_moments_are_adams_own() -> None:
    model = nn.Linear(3, 3, bias=False)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.99), weight_decay=0.0)
    gradients = [torch.full((3, 3), 0.1), torch.full((3, 3), 0.3)]
    for gradient in gradients:
        model.weight.grad = gradient.clone()
        optimiser.step()
    found = moments(optimiser, model.weight, gradient_norm=6.0)
    v = (0.99 * 0.01 * 0.01 + 0.01 * 0.09) / (1 - 0.99**2)
    assert found["second_moment"] == pytest.approx(v**0.5)
    assert found["first_moment"] == pytest.approx(0.9 * 0.1 * 0.1 + 0.1 * 0.3)
    assert found["surprise"] == pytest.approx(2.0 / v**0.5)
    assert moments(torch.optim.SGD(model.parameters(), lr=1.0), model.weight, 1.0) == {}


def test_a_batch_in_words() -> None:
    assert str(BatchIdentity(sha256="ab" * 32)) == "SHA-256 abababababababab…"
    assert str(BatchIdentity(examples=tuple(range(10)), epoch=2, number=7)).startswith(
        "epoch 2, batch 7, examples 0, 1,"
    )
