"""Is the rate too high for this model? What is said goes by the room its weights have, and by nothing else."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.diagnosis.checks.rate import room_to_move
from lamina.diagnosis.judge import judge
from lamina.diagnosis.results import Measure, Series, Verdict
from lamina.diagnosis.thresholds import VerdictOptions

MOVES = (0.01, 0.03, 0.1, 0.3)


def curve(*shares: float) -> Series:
    return Series(label="decoder", x=MOVES[: len(shares)], y=shares)


def verdicts(shares: Series, rate: float | None, start: float = 0.9) -> list[Verdict]:
    facts = {"decoder at the start": start}
    measure = Measure(
        key="gradient-when-moved", title="", formula="", source="", look_for="", measured=(shares,), facts=facts
    )
    return [each for each in judge([measure], schemes=["post-ln"], highest_rate=rate) if each.kind == "rate"]


def test_where_the_curve_falls_to_the_threshold() -> None:
    falling, steep = curve(0.8, 0.4, 0.1, 0.0), curve(0.8, 0.4, 0.2, 0.05)
    assert room_to_move(falling, 0.9, 0.1) == (pytest.approx(0.1), "vanishes")
    assert room_to_move(steep, 0.9, 0.1) == (pytest.approx(0.1 * 3**0.5), "vanishes"), "halfway in logarithms"
    assert room_to_move(curve(0.01, 0.0), 1.0, 0.1) == (pytest.approx(0.005), "vanishes"), "straight from the start"
    assert room_to_move(curve(0.8, 0.4, 0.2, 0.11), 0.9, 0.1) == (0.3, "unknown")
    assert room_to_move(curve(0.8, inf, inf), 0.9, 0.1) == (0.03, "explodes")
    assert room_to_move(curve(0.8, nan, 0.01), 0.9, 0.1) == (0.01, "unknown")


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    start=st.floats(0.6, 1),
    thresholds=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
)
def test_the_higher_the_threshold_the_less_room(
    shares: list[float], start: float, thresholds: tuple[float, float]
) -> None:
    low, high = sorted(thresholds)
    line = curve(*shares)
    nearer, further = room_to_move(line, start, high), room_to_move(line, start, low)
    assert 0 <= nearer.moved <= further.moved * (1 + 1e-9)
    if further.end == "vanishes":
        below = [move for move, share in zip(line.x, line.y, strict=True) if share <= low]
        assert further.moved <= below[0] * (1 + 1e-9), "not behind the first place that is known to be too far"


def test_the_rate_decides() -> None:
    room, options = 0.1, VerdictOptions()
    falling = curve(0.8, 0.4, 0.1, 0.0)
    (high,) = verdicts(falling, 2 * room / options.reach_failure)
    (close,) = verdicts(falling, 0.9 * room / options.reach_failure)
    (low,) = verdicts(falling, 0.1 * room / options.reach_failure)
    assert [each.severity for each in (high, close, low)] == ["failure", "warning", "fine"]
    assert high.value == pytest.approx(options.reach_failure / 2)
    assert (high.threshold, close.threshold) == (options.reach_failure, options.reach_warning)
    assert "all weights have moved by 0.10, 7.5 times the highest rate of 0.013: below 15, training" in high.sentence
    assert high.advice == "take a rate below 6.7·10⁻³, or pre-ln or resi-dual, where it is kept"
    assert "16.7 times the highest rate of 6.0·10⁻³: below 40, where training failed on a harder task" in close.sentence
    assert close.advice.startswith("take a rate below 2.5·10⁻³"), "one that would leave no warning"
    assert low.sentence.endswith("150 times the highest rate of 6.7·10⁻⁴: far enough")
    assert not low.advice


def test_a_gradient_that_explodes_is_judged_like_one_that_vanishes() -> None:
    (found,) = verdicts(curve(0.8, 0.9, inf, inf), 1e-2)
    assert (found.severity, found.value) == ("failure", pytest.approx(10))
    assert "the gradients of the decoder overflow when all weights have moved by 0.10" in found.sentence
    assert [each.severity for each in verdicts(curve(0.8, 0.9, inf, inf), 1e-3)] == ["fine"]


def test_a_curve_that_stays_up_is_good_as_far_as_it_goes() -> None:
    even = curve(0.9, 0.9, 0.8, 0.9)
    (fine,) = verdicts(even, 1e-2)
    assert (fine.severity, fine.value) == ("fine", inf)
    assert "0.10 of the last one's gradient when all weights have moved by 0.30, 30 times" in fine.sentence
    (beyond,) = verdicts(even, 1.0)
    assert (beyond.severity, beyond.value) == ("warning", pytest.approx(0.3))
    assert "nothing is known so far out" in beyond.sentence
    assert beyond.advice == "take a rate below 0.020"


def test_nothing_is_said_where_there_is_no_gradient_to_lose() -> None:
    assert not verdicts(curve(nan, nan), 1e-3)
    assert not verdicts(curve(0.9, 0.9), 1e-3, start=nan)
    assert not verdicts(curve(0.1, 0.01), 1e-3, start=0.05), "that it has vanished is a verdict of its own"


def test_nothing_is_said_without_a_rate() -> None:
    assert not verdicts(curve(0.1, 0.01), None)
