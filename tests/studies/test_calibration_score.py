"""Calibration of checks: which runs failed, and that thresholds are judged on cells they have not seen."""

from __future__ import annotations

import json
import math

import pytest

from lamina.diagnosis.checks.amplification import Amplification
from lamina.diagnosis.checks.learning_rate import LearningRate
from lamina.diagnosis.checks.vanishing import Vanishing
from lamina.diagnosis.measurement import Fact, Location, Measurement, Series, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.measures.gradient_when_moved import GradientWhenMoved
from lamina.diagnosis.results import Diagnosis
from lamina.studies.calibration_score import (
    CalibrationCell,
    CheckValues,
    RunOutcome,
    calibrate,
    choose,
    default_thresholds,
    failures,
    score,
)


def outcome(nll: float | None) -> RunOutcome:
    return RunOutcome("finished", "", nll, 5.0)


def test_a_run_that_learns_less_than_a_quarter_of_the_best_has_failed() -> None:
    found = failures(
        {
            CalibrationCell("good", 6, 1e-3, 1): outcome(3.0),
            CalibrationCell("fair", 6, 1e-3, 1): outcome(4.4),
            CalibrationCell("slow", 6, 1e-3, 1): outcome(4.6),
            CalibrationCell("flat", 6, 1e-3, 1): outcome(5.2),
            CalibrationCell("gone", 6, 1e-3, 1): outcome(None),
            CalibrationCell("good", 6, 1e-2, 1): outcome(
                4.95
            ),  # the best of its depth and rate: nothing was decided there
            CalibrationCell("flat", 6, 1e-2, 1): outcome(5.0),
        }
    )
    assert {cell.scheme: failed for cell, failed in found.items()} == {
        "good": False,
        "fair": False,
        "slow": True,
        "flat": True,
        "gone": True,
    }
    assert all(cell.learning_rate == 1e-3 for cell in found)


def test_scores_count_hits_misses_and_false_alarms() -> None:
    cells = [CalibrationCell(str(number), 1, 1.0, 1) for number in range(4)]
    expected = dict(zip(cells, (True, True, False, False), strict=True))
    failed = dict(zip(cells, (True, False, True, False), strict=True))
    found = score(expected, failed, cells)
    assert (found.hits, found.misses, found.false_alarms, found.total) == (2, 1, 1, 4)
    assert found.accuracy == 0.5
    assert math.isnan(score(expected, failed, []).accuracy)


def test_thresholds_are_those_that_hit_most_and_stay_where_nothing_is_gained() -> None:
    cells = [CalibrationCell(str(number), 1, 1.0, 1) for number in range(4)]
    seen = {cell: CheckValues(share, 0.5, math.inf) for cell, share in zip(cells, (0.01, 0.5, 0.6, 0.9), strict=True)}
    found = choose(seen, dict(zip(cells, (True, True, False, False), strict=True)), cells)
    assert 0.5 < found.vanishing < 0.6
    assert found[1:] == default_thresholds()[1:]
    kept = choose(seen, dict(zip(cells, (True, False, False, False), strict=True)), cells)
    defaults = [check.Thresholds().failure for check in (Vanishing, Amplification, LearningRate)]
    assert kept == default_thresholds() == CheckValues(*defaults)


def test_any_sign_is_enough_to_expect_failure() -> None:
    fine, thresholds = CheckValues(0.5, 0.5, 100.0), CheckValues(0.1, 2.0, 40.0)
    assert not fine.crosses(thresholds)
    assert fine._replace(vanishing=0.1).crosses(thresholds)
    assert fine._replace(amplification=2.0).crosses(thresholds)
    assert fine._replace(reach=40.0).crosses(thresholds)


def test_the_same_model_is_expected_to_fail_at_a_high_rate_only() -> None:
    low, high = CalibrationCell("one", 6, 1e-3, 1), CalibrationCell("one", 6, 1e-2, 1)
    better = [CalibrationCell("best", 6, rate, 1) for rate in (1e-3, 1e-2)]
    decoder = Location(stack="decoder")
    curve = Series(location=decoder, x=(0.01, 0.1, 0.3), y=(1.0, 0.1, 0.01))
    moved = GradientWhenMoved().measurement([curve], facts=[Fact(name="unmoved", location=decoder, value=0.8)])
    outcomes = {cell: outcome(3.0) for cell in (low, *better)} | {high: outcome(5.0)}
    diagnoses = dict.fromkeys(better, diagnosis(0.8))
    with_moved = diagnosis(0.8, moved)
    found = calibrate(outcomes, diagnoses | {low: with_moved, high: with_moved})
    rows = {(row["scheme"], row["learning_rate"]): row for row in found.rows}
    assert rows["one", 1e-2]["reach"] == pytest.approx(rows["one", 1e-3]["reach"] / 10)
    assert [rows["one", rate]["expected"] for rate in (1e-3, 1e-2)] == [False, True]


def diagnosis(share: float, *others: Measurement) -> Diagnosis:
    gradient = Series(location=Location(stack="decoder", matrix="outer"), x=(1, 2), y=(share, 1.0))
    measurements = (GradientByLayer().measurement([gradient]), *others)
    return Diagnosis(name="", model="", stage=Stage(name="start"), measurements=measurements)


def test_hits_are_counted_on_the_other_half() -> None:
    cells = [CalibrationCell(f"scheme{number}", 6, 1e-3, 1) for number in range(40)]
    bad = {cell: number % 3 == 0 for number, cell in enumerate(cells)}
    outcomes = {cell: outcome(5.0 if bad[cell] else 3.0) for cell in cells}
    found = calibrate(outcomes, {cell: diagnosis(0.2 if bad[cell] else 0.8) for cell in cells})
    first, second = ([cell for cell in cells if cell.half == half] for half in (0, 1))
    assert first
    assert second
    assert 0.2 < found.thresholds.vanishing < 0.8
    assert (found.chosen_on.total, found.held_out.total) == (len(first), len(second))
    assert found.held_out.hits == len(second), "vanishing tells them apart"
    assert found.majority_held_out.hits == sum(not bad[cell] for cell in second)
    assert found.defaults_held_out.misses == sum(bad[cell] for cell in second), "0.2 is only a warning"
    text = found.markdown()
    assert text.count("| scheme") == 41, "a heading and a row for every cell"
    json.dumps(found.numbers())
