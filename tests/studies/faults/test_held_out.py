"""Thresholds chosen on one half of the grid and tested on the other, with made-up outcomes."""

from __future__ import annotations

from math import inf

import pytest

from lamina.studies.faults.grid import NO_FAULT, FaultOutcome
from lamina.studies.faults.held_out import choose_bands, halfway, halves, score, score_table


def outcome(fault: str, model: str, value: float, *, named: bool) -> FaultOutcome:
    return FaultOutcome(fault, model, ("dead",), named_by="dead" if named else "", values={"dead": value})


def healthy(value: float, *others: str) -> FaultOutcome:
    return FaultOutcome(NO_FAULT, "one", others=others, values={"dead": value})


GRID = [
    healthy(0.01),
    healthy(0.02),
    healthy(0.015),
    healthy(0.9, "dead"),
    outcome("dead units", "one", 0.8, named=True),
    outcome("dead units", "other", 0.7, named=False),
    outcome("few units", "one", 0.1, named=False),
    outcome("few units", "other", 0.6, named=True),
]


def test_each_fault_is_in_both_halves_with_different_models() -> None:
    first, second = halves(GRID)
    assert [(each.fault, each.model) for each in first if each.checks] == [
        ("dead units", "one"),
        ("few units", "other"),
    ]
    assert [(each.fault, each.model) for each in second if each.checks] == [
        ("dead units", "other"),
        ("few units", "one"),
    ]
    assert [each.values["dead"] for each in first if not each.checks] == [0.01, 0.015]


def test_a_band_lies_halfway_between_usual_and_faulty_values() -> None:
    band = choose_bands(halves(GRID)[0])["dead"]
    assert band.low == -inf, "no fault lies below"
    assert band.high == pytest.approx((0.015 * 0.6) ** 0.5)
    assert halfway(-1.0, 3.0) == 1.0
    assert halfway(2.0, inf) == 2.0
    assert not choose_bands([healthy(1.0), healthy(2.0)])


def test_faults_on_both_sides() -> None:
    outcomes = [healthy(1.0), healthy(2.0), outcome("large", "one", 8.0, named=True)]
    outcomes.append(outcome("small", "one", 0.25, named=True))
    band = choose_bands(outcomes)["dead"]
    assert (band.low, band.high) == (0.5, 4.0)
    assert [band.contains(each) for each in (0.3, 1.5, 5.0)] == [False, True, False]


def test_right_answers_on_the_half_that_was_held_out() -> None:
    found = score(GRID)
    assert (found.faults, found.healthy) == (2, 2)
    assert found.chosen == (2, 1), "0.7 and 0.1 are above the band, and so is the healthy 0.9"
    assert found.shipped == (0, 1)
    assert found.majority == (2, 2), "both faults have the same cause"
    assert "| as shipped | 0 of 2 (0%) | 1 of 2 |" in score_table(GRID)


def test_checks_that_test_a_condition_are_left_out() -> None:
    structural = [
        FaultOutcome("frozen", model, ("untrained",), "untrained", values={"untrained": 0.0}) for model in "ab"
    ]
    assert score([*GRID, *structural]) == score(GRID)
    assert not choose_bands([healthy(1.0), *structural])
