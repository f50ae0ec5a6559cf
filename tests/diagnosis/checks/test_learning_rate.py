"""The check `learning-rate`: how far the weights can move, in units of the learning rate."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.diagnosis.checks.learning_rate import LearningRate, find_reach
from lamina.diagnosis.measurement import Location, Series
from lamina.diagnosis.results import Finding, SchemeTrait, Setting
from support.measurements import fact, findings, measurement

MOVES = (0.01, 0.03, 0.1, 0.3)
USUAL = LearningRate.Thresholds()


def curve(*shares: float) -> Series:
    return Series(location=Location(stack="decoder"), x=MOVES[: len(shares)], y=shares)


def judged(shares: Series, learning_rate: float | None, start: float = 0.9) -> Finding:
    moved = measurement("gradient-when-moved", shares, facts=[fact("unmoved", start, stack="decoder")])
    (found,) = findings("learning-rate", [moved], schemes=["post-ln"], learning_rate=learning_rate)
    assert found.location == Location(stack="decoder")
    return found


def bound_of(found: Finding) -> float | int | str | bool:
    """The learning rate below which the check would pass."""
    remedy = found.remedies[0]
    assert isinstance(remedy, Setting)
    assert (remedy.key, remedy.relation) == ("schedule.learning_rate", "<")
    return remedy.value


def test_where_the_curve_falls_to_the_threshold() -> None:
    falling, steep = curve(0.8, 0.4, 0.1, 0.0), curve(0.8, 0.4, 0.2, 0.05)
    assert find_reach(falling, 0.9, 0.1) == (pytest.approx(0.1), "vanishes")
    assert find_reach(steep, 0.9, 0.1) == (pytest.approx(0.1 * 3**0.5), "vanishes"), "halfway in logarithms"
    assert find_reach(curve(0.01, 0.0), 1.0, 0.1) == (pytest.approx(0.005), "vanishes"), "straight from the start"
    assert find_reach(curve(0.8, 0.4, 0.2, 0.11), 0.9, 0.1) == (0.3, "unknown")
    assert find_reach(curve(0.8, inf, inf), 0.9, 0.1) == (0.03, "overflows")
    assert find_reach(curve(0.8, nan, 0.01), 0.9, 0.1) == (0.01, "unknown")


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    start=st.floats(0.6, 1),
    thresholds=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
)
def test_the_higher_the_threshold_the_shorter_the_reach(
    shares: list[float], start: float, thresholds: tuple[float, float]
) -> None:
    low, high = sorted(thresholds)
    line = curve(*shares)
    nearer, further = find_reach(line, start, high), find_reach(line, start, low)
    assert 0 <= nearer.distance <= further.distance * (1 + 1e-9)
    if further.end == "vanishes":
        below = [move for move, share in zip(line.x, line.y, strict=True) if share <= low]
        assert further.distance <= below[0] * (1 + 1e-9), "not behind the first place that is known to be too far"


def test_the_learning_rate_decides() -> None:
    reach = 0.1
    falling = curve(0.8, 0.4, 0.1, 0.0)
    high = judged(falling, 2 * reach / USUAL.failure)
    close = judged(falling, 0.9 * reach / USUAL.failure)
    low = judged(falling, 0.1 * reach / USUAL.failure)
    assert [each.severity for each in (high, close, low)] == ["failure", "warning", "fine"]
    assert high.value == pytest.approx(USUAL.failure / 2)
    assert (high.threshold, close.threshold) == (USUAL.failure, USUAL.warning)
    assert "all weights have moved by 0.1, 7.5 times the highest learning rate of 0.0133: below the" in high.sentence
    assert bound_of(high) == pytest.approx(reach / USUAL.failure)
    assert high.remedies[1] == SchemeTrait(avoids="learning-rate", schemes=("pre-ln", "resi-dual"))
    assert "16.7 times the highest learning rate of 0.006: below the threshold of 40, where training" in close.sentence
    assert bound_of(close) == pytest.approx(reach / USUAL.warning), "one that would leave no warning"
    assert low.sentence.endswith(": above the threshold of 40")
    assert "150 times the highest learning rate of 6.67·10⁻⁴" in low.sentence
    assert low.remedies == ()


def test_a_gradient_that_overflows_is_judged_like_one_that_vanishes() -> None:
    found = judged(curve(0.8, 0.9, inf, inf), 1e-2)
    assert (found.severity, found.value) == ("failure", pytest.approx(10))
    assert "the gradients of the decoder overflow when all weights have moved by 0.1" in found.sentence
    assert judged(curve(0.8, 0.9, inf, inf), 1e-3).severity == "fine"


def test_a_curve_that_never_falls_is_judged_up_to_its_last_point() -> None:
    even = curve(0.9, 0.9, 0.8, 0.9)
    fine = judged(even, 1e-2)
    assert (fine.severity, fine.value) == ("fine", inf)
    assert "0.1 of the last layer's gradient when all weights have moved by 0.3, 30 times" in fine.sentence
    beyond = judged(even, 1.0)
    assert (beyond.severity, beyond.value) == ("warning", pytest.approx(0.3))
    assert "larger distances were not measured" in beyond.sentence
    assert bound_of(beyond) == pytest.approx(0.3 / USUAL.failure)
    assert len(beyond.remedies) == 1


def test_where_there_is_no_gradient_to_lose_nothing_is_judged() -> None:
    for found in (judged(curve(nan, nan), 1e-3), judged(curve(0.9, 0.9), 1e-3, start=nan)):
        assert found.severity == "not measured"
        assert "no gradient reaches the layers of the decoder" in found.sentence
    vanished = judged(curve(0.1, 0.01), 1e-3, start=0.05)
    assert vanished.severity == "not measured", "that it has vanished is found by another check"
    assert "has vanished before any weight moved" in vanished.sentence


def test_without_a_learning_rate_nothing_is_judged() -> None:
    found = judged(curve(0.1, 0.01), None)
    assert found.severity == "not measured"
    assert "learning rate of training is not known" in found.sentence
