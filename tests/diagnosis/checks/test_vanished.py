"""The check `vanished`: the gradient of the lower layers during training."""

from __future__ import annotations

from math import nan

from lamina.diagnosis.measurement import Location, Measurement
from lamina.diagnosis.results import Finding
from support.measurements import advice, fact, findings, line, measurement


def shares(*decoder: float, encoder: float = 1e-6) -> Measurement:
    """The shares by step, of an encoder, which is not checked, and of a decoder, which is."""
    return measurement(
        "watched-weakest-layer",
        line(*[encoder] * len(decoder), stack="encoder"),
        line(*decoder, stack="decoder"),
        facts=[fact("gives the loss", 1.0, stack="decoder")],
    )


def vanished(*decoder: float) -> Finding:
    (found,) = findings("vanished", [shares(*decoder)])
    return found


def test_a_gradient_that_stays_is_fine() -> None:
    good = vanished(0.9, 0.5, 0.7)
    assert (good.severity, good.location, good.value) == ("fine", Location(stack="decoder"), 0.5)
    assert good.remedies == ()


def test_a_gradient_that_stays_vanished_is_a_failure() -> None:
    bad = vanished(0.5, 0.005)
    assert (bad.severity, bad.value, bad.threshold) == ("failure", 0.005, 0.01)
    assert "below the threshold of 0.01 in 1 of them, first at step 2; it is still below" in bad.sentence
    assert "resi-dual" in advice(bad)
    assert "divide the learning rate" in advice(bad)


def test_a_gradient_that_recovered_is_a_warning() -> None:
    back = vanished(0.5, 0.005, 0.002, 0.5)
    assert back.severity == "warning"
    assert "in 4 watched steps, below the threshold of 0.01 in 2 of them, first at step 2; it has recovered" in (
        back.sentence
    )


def test_nan_does_not_count_as_recovered() -> None:
    assert vanished(0.005, nan).sentence.endswith("it is still below")
    assert vanished(nan, nan).severity == "not measured"
