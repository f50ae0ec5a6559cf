"""Alarms: bands that updates leave, and gradients that vanish."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.watching.alarms import (
    BandOptions,
    UpdateAlarm,
    UpdateBand,
    UpdateBands,
    VanishedGradientAlarm,
    update_alarm,
    vanished_gradient_alarm,
)
from lamina.diagnosis.watching.observation import MatrixObservation, Observation, OutsideBand


def matrix(
    stack: str, layer: int, gradient: float = 1.0, update: float | None = 1e-3, learning_rate: float = 1.0, **where: Any
) -> MatrixObservation:
    location = Location(stack=stack, layer=layer, **{"matrix": "outer"} | where)
    return MatrixObservation(
        location=location,
        gradient_norm=gradient,
        update_norm=1.0,
        relative_update=update,
        learning_rate=learning_rate,
    )


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=40), st.floats(1e-20, 1e20))
def test_a_band_does_not_depend_on_the_unit(sizes: list[float], unit: float) -> None:
    one, other = UpdateBand(BandOptions()), UpdateBand(BandOptions())
    for size in sizes:
        first, second = one.add(size), other.add(size * unit)
        assert (first is None) == (second is None)


def test_a_band_is_left_upwards_and_far_enough() -> None:
    band = UpdateBand(BandOptions(min_observed=5, width=6, factor=1.5))
    for size in (1.0, 1.01, 0.99, 1.02, 0.98):
        assert band.add(size) is None
    assert band.add(1.4) is None, "less than the least factor"
    assert band.add(0.01) is None, "downwards is no danger"
    assert band.add(3.0) == pytest.approx(3.0, rel=0.02)
    noisy = UpdateBand(BandOptions(min_observed=5))
    for size in (1.0, 4.0, 0.3, 2.0, 0.5, 3.0):
        assert noisy.add(size) is None
    assert noisy.add(5.0) is None, "no more than the noise it has"
    assert noisy.add(math.inf) == math.inf


def test_every_matrix_has_its_band_and_updates_are_taken_at_their_learning_rate() -> None:
    bands = UpdateBands(BandOptions())
    for step in range(1, 8):
        rate = 1e-3 * step
        assert bands.add([matrix("stack", layer, update=rate * layer, learning_rate=rate) for layer in (1, 2)]) == ()
    (outside,) = bands.add([matrix("stack", 1, update=3.0), matrix("stack", 2, update=2.0), matrix("stack", 3)])
    assert outside.location == Location(stack="stack", layer=1, matrix="outer")
    assert outside.times_usual == pytest.approx(3.0)
    assert bands.add([matrix("stack", 1, update=9.0, learning_rate=0.0), matrix("stack", 2, update=None)]) == ()


@pytest.mark.parametrize(
    ("times", "total", "expected"),
    [((), 10, False), ((2.0,), 10, False), ((2.0, 2.0), 10, True), ((math.inf,), 100, True), ((math.nan,), 100, True)],
)
def test_many_at_once_or_one_that_is_not_finite_are_an_alarm(
    times: tuple[float, ...], total: int, expected: bool
) -> None:
    outside = [OutsideBand(location=Location(stack="stack"), times_usual=each) for each in times]
    assert UpdateBands(BandOptions(alarm_share=0.2)).is_unstable(outside, total) == expected


def test_the_alarm_names_the_matrix_that_is_furthest_outside() -> None:
    query = Location(stack="decoder", layer=1, matrix="query")
    outside = tuple(OutsideBand(location=query, times_usual=each) for each in (3.0, 7.0))
    matrices = (matrix("decoder", 1), matrix("decoder", 2), matrix("decoder", 3, update=None))
    observed = Observation(step=3, matrices=matrices, outside=outside)
    assert update_alarm(observed) is None
    alarm = update_alarm(observed.model_copy(update={"unstable": True}))
    assert alarm == UpdateAlarm(step=3, location=query, times_usual=7.0, outside=2, total=2)
    assert "step 3: the update of decoder layer 1 query is 7 times its usual size" in str(alarm)
    assert "2 of 2 matrices have left their band" in str(alarm)


def vanished(*matrices: MatrixObservation, output_stack: str | None = "decoder") -> VanishedGradientAlarm | None:
    return vanished_gradient_alarm(Observation(step=9, matrices=matrices, output_stack=output_stack), 0.01)


def test_a_gradient_that_has_vanished() -> None:
    encoder = (matrix("encoder", 1, 1e-6), matrix("encoder", 2))
    alarm = vanished(*encoder, matrix("decoder", 1, 0.001), matrix("decoder", 2, 0.5), matrix("decoder", 3))
    assert alarm == VanishedGradientAlarm(
        step=9, location=Location(stack="decoder", layer=1), last_layer=3, share=0.001
    )
    assert "step 9: the gradient norm of decoder layer 1 is 0.001 of layer 3's" in str(alarm)
    assert vanished(*encoder, matrix("decoder", 1, 0.02), matrix("decoder", 2)) is None
    assert vanished(*encoder, matrix("decoder", 1, 0.0), matrix("decoder", 2)) is None, "dropped in this step"
    assert vanished(*encoder, matrix("decoder", 1, math.nan), matrix("decoder", 2)) is None
    assert vanished(*encoder) is None, "a frozen decoder is not judged"
    assert vanished(*encoder, output_stack=None) is None
