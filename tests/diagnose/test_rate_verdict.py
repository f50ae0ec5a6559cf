"""Is the rate too high for this model? What is said goes by the room its weights have, and by nothing else."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.diagnose.results import Measure, Series, Verdict
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdict.rate import room_to_move
from lamina.diagnose.verdicts import judge

MOVES = (0.01, 0.03, 0.1, 0.3)


def curve(*shares: float) -> Series:
    return Series(label="decoder", x=MOVES[: len(shares)], y=shares)


def verdicts(shares: Series, rate: float | None, start: float = 0.9) -> list[Verdict]:
    def measure(key: str, line: Series) -> Measure:
        return Measure(key=key, title="", formula="", source="", look_for="", measured=(line,))

    at_start = Series(label="decoder outer", x=(1, 2), y=(start, 1.0))
    measures = [measure("gradient-by-layer", at_start), measure("gradient-when-moved", shares)]
    return [each for each in judge(measures, schemes=["post-ln"], highest_rate=rate) if each.kind == "rate"]


def test_where_the_curve_falls_to_the_threshold() -> None:
    assert room_to_move(curve(0.8, 0.4, 0.1, 0.0), 0.9, 0.1) == pytest.approx(0.1)
    assert room_to_move(curve(0.8, 0.4, 0.2, 0.05), 0.9, 0.1) == pytest.approx(0.1 * 3**0.5), "halfway in logarithms"
    assert room_to_move(curve(0.01, 0.0), 1.0, 0.1) == pytest.approx(0.005), "from the start on a straight line"
    assert room_to_move(curve(0.8, 0.4, 0.2, 0.11), 0.9, 0.1) == inf
    assert room_to_move(curve(0.8, 0.4), 0.05, 0.1) == 0, "there is none to begin with"
    assert room_to_move(curve(0.8, nan, 0.01), 0.9, 0.1) == inf, "nobody knows"


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    start=st.floats(0.01, 1),
    thresholds=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
)
def test_the_higher_the_threshold_the_less_room(
    shares: list[float], start: float, thresholds: tuple[float, float]
) -> None:
    low, high = sorted(thresholds)
    line = curve(*shares)
    assert 0 <= room_to_move(line, start, high) <= room_to_move(line, start, low) * (1 + 1e-9)
    room = room_to_move(line, start, low)
    if 0 < room < inf:
        below = [move for move, share in zip(line.x, line.y, strict=True) if share <= low]
        assert room <= below[0] * (1 + 1e-9), "it does not lie behind the first place that is known to be too far"


def test_the_rate_decides() -> None:
    room, reach = 0.1, VerdictOptions().reach_failure
    falling = curve(0.8, 0.4, 0.1, 0.0)
    (high,) = verdicts(falling, 1.01 * room / reach)
    (close,) = verdicts(falling, 0.9 * room / reach)
    (low,) = verdicts(falling, 0.1 * room / reach)
    assert [each.severity for each in (high, close, low)] == ["failure", "warning", "fine"]
    assert high.value == pytest.approx(reach / 1.01)
    assert (high.threshold, close.threshold) == (reach, VerdictOptions().reach_warning)
    assert "once all weights have moved by 0.10, 15 times the highest rate of 6.7·10⁻³, below 15" in high.sentence
    assert high.advice.startswith("a rate below 6.7·10⁻³, or ")
    assert "post-ln" not in high.advice
    assert not low.advice


def test_no_room_at_all_and_all_the_room_there_is() -> None:
    (none,) = verdicts(curve(0.1, 0.01), 1e-4, start=0.05)
    assert (none.severity, none.value) == ("failure", 0.0)
    assert none.sentence.endswith("from the start")
    assert "a rate below" not in none.advice, "none would help"
    (all_of_it,) = verdicts(curve(0.9, 0.9, 0.8, 0.9), 1.0)
    assert (all_of_it.severity, all_of_it.value) == ("fine", inf)
    assert "keeps more than 0.10 of the last one's gradient wherever the weights move" in all_of_it.sentence


def test_nothing_is_said_where_there_was_no_gradient_to_lose() -> None:
    assert not verdicts(curve(nan, nan), 1e-3)
    assert not verdicts(curve(0.9, 0.9), 1e-3, start=nan)


def test_nothing_is_said_without_a_rate() -> None:
    assert not verdicts(curve(0.1, 0.01), None)
