"""The figures of a comparison: which runs are one line, means over seeds, and measurements of both stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from lamina.diagnosis.measurement import Location, Series, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.results import Diagnosis
from lamina.report.pages.comparison_figures import (
    MOST_POINTS,
    Variant,
    diagnoses_of,
    group_runs,
    loss_sections,
    measured_sections,
)
from lamina.report.run_results import RunResult
from support.made_run_results import RUNS


def runs(*curves: Sequence[tuple[float, float]], scheme: str = "b2t", depth: int = 6) -> list[RunResult]:
    """Runs that differ in their seeds, with these validation losses and without training losses."""
    return [
        replace(
            RUNS[0],
            schemes=(scheme,),
            layers=(depth, depth),
            seed=seed,
            validation_loss=curve,
            training_loss=[],
            start=None,
            end=None,
        )
        for seed, curve in enumerate(curves)
    ]


def only_line(given: Sequence[RunResult]) -> Series:
    (section,) = loss_sections(group_runs(given))
    return section.panels[0].curves[0].series


def test_runs_that_differ_in_their_seeds_are_one_variant() -> None:
    groups = group_runs(RUNS)
    assert [(variant.name, len(each)) for variant, each in groups.items()] == [
        (f"{scheme}, {depth}-{depth}", 2) for depth in (6, 12) for scheme in ("post-ln", "pre-ln", "b2t")
    ]


def test_runs_that_differ_in_a_setting_are_different_lines_in_different_colours() -> None:
    slow, fast = (("learning_rate", "0.001"),), (("learning_rate", "0.01"),)
    given = [replace(run, settings=own) for own in (slow, fast) for run in runs([(1, 4.0)], [(1, 6.0)])]
    assert [len(each) for each in group_runs(given).values()] == [2, 2]
    (section,) = loss_sections(group_runs(given))
    (panel,) = section.panels
    assert [curve.name for curve in panel.curves] == ["b2t, learning_rate = 0.001", "b2t, learning_rate = 0.01"]
    assert len({curve.style.colour for curve in panel.curves}) == 2


def test_the_line_is_the_mean_over_seeds_with_their_standard_deviation() -> None:
    line = only_line(runs([(1, 4.0), (2, 2.0)], [(1, 6.0), (2, 2.0), (3, 1.0)]))
    assert line.x == (1, 2, 3)
    assert line.y == (5.0, 2.0, 1.0)
    assert line.spread == pytest.approx((math.sqrt(2), 0.0, 0.0))
    assert only_line(runs([(1, 4.0)])).spread == (), "one seed has none"


def test_a_loss_near_the_largest_number_does_not_overflow() -> None:
    assert only_line(runs([(1, 1.5e308)], [(1, 1.5e308)])).y == (1.5e308,)


def test_a_long_curve_is_averaged_over_intervals() -> None:
    line = only_line(runs([(step, float(step % 2)) for step in range(1, 8 * MOST_POINTS + 1)]))
    assert len(line.x) == MOST_POINTS
    assert line.x[-1] == 8 * MOST_POINTS
    assert set(line.y) == {0.5}


def test_a_panel_per_depth_and_only_losses_that_there_are() -> None:
    given = runs([(1, 4.0)]) + runs([(1, 3.0)], depth=12) + runs([(1, 2.0)], scheme="pre-ln", depth=12)
    (section,) = loss_sections(group_runs(given))
    assert section.about.title == "Validation loss"
    assert [(panel.title, [curve.name for curve in panel.curves]) for panel in section.panels] == [
        ("depth 6-6", ["b2t"]),
        ("depth 12-12", ["b2t", "pre-ln"]),
    ]
    first, second = (panel.curves[0].style for panel in section.panels)
    assert first == second, "a scheme looks the same at every depth"
    assert loss_sections(group_runs(runs([]))) == []


@pytest.mark.parametrize(("last", "log"), [(4.0, False), (500.0, True)])
def test_a_loss_that_explodes_has_a_logarithmic_axis(last: float, log: bool) -> None:
    (section,) = loss_sections(group_runs(runs([(1, 4.0), (2, last)])))
    assert section.about.axes.log_y == log


def test_the_diagnoses_are_those_of_the_first_run_that_has_any() -> None:
    start = RUNS[0].start
    assert start is not None
    without, only_start = (replace(RUNS[0], seed=seed, start=None, end=None) for seed in (1, 2))
    later = replace(RUNS[0], seed=3)
    found = diagnoses_of(group_runs([without, replace(only_start, start=start), later]))
    assert {variant.schemes: list(stages) for variant, stages in found.items()} == {("post-ln",): [Stage(name="start")]}
    assert diagnoses_of(group_runs([without])) == {}


def test_only_the_part_that_is_compared_is_shown_at_both_stages() -> None:
    series = [
        Series(location=Location(stack="decoder", matrix=each), x=(1, 2), y=(1, 2)) for each in ("query", "outer")
    ]
    diagnosis = Diagnosis(
        name="", model="", stage=Stage(name="start"), measurements=(GradientByLayer().measurement(series),)
    )
    stages = {Stage(name="start"): diagnosis, Stage(name="end"): diagnosis}
    ((depth, (section,)),) = measured_sections({Variant(("b2t",), (6, 6)): stages})
    assert depth == "6-6"
    shown = [curve.series for panel in section.panels for curve in panel.curves]
    assert [each.location.matrix for each in shown] == ["outer", "outer"]
    assert [each.stage for each in shown] == list(stages)
