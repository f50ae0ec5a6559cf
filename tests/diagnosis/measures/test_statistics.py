from __future__ import annotations

import math
from typing import Any

import pytest

from lamina.diagnosis.examine import average_all
from lamina.diagnosis.measurement import Fact, Grid, Location, Measurement, Series
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.measures.statistics import average, fit, fit_exponential, fit_power
from support.recorded import fact, line, mean_of

EMPTY = GradientByLayer().measurement()


def changed(**content: Any) -> Measurement:
    return EMPTY.model_copy(update=content)


def test_least_squares() -> None:
    assert fit([1, 2, 3], [3, 5, 7]) == pytest.approx((2, 1, 1))
    assert fit([0, 1, 2], [0, 1, 0]).r_squared == pytest.approx(0)
    assert fit_power([1, 4, 16], [1, 0.5, 0.25]).slope == pytest.approx(-0.5)
    assert fit_exponential([0, 1, 2], [1, math.e, math.e**2]).slope == pytest.approx(1)
    assert math.isnan(fit([1, 1], [1, 2]).slope)
    assert math.isnan(fit_power([1, 2], [0, 1]).slope)


def test_several_samples_become_means_with_deviations() -> None:
    one, two = (
        changed(
            series=(
                Series(location=Location(stack="a"), x=(1,), y=(y,)),
                Series(quantity="other", x=(1, 2), y=(y, math.inf)),
                Series(role="predicted", x=(1,), y=(y,)),
            ),
            grids=(Grid(values=((y, math.nan),), rows="", columns=""),),
            facts=(Fact(name="f", value=y),),
        )
        for y in (1.0, 3.0)
    )
    mean = average([one, two])
    assert line(mean, stack="a") == (2.0,)
    assert line(mean, quantity="other") == (2.0, math.inf)
    assert line(mean, role="predicted") == (2.0,)
    assert mean.grids[0].values[0][0] == 2.0
    assert math.isnan(mean.grids[0].values[0][1])
    assert [(each.name, each.value) for each in mean.facts] == [("f", 2.0)]
    assert average([one]) is one


def test_the_spread_is_the_standard_deviation_of_the_samples() -> None:
    samples = [[changed(series=(Series(x=(1, 2), y=(y, 2 * y)),))] for y in (1.0, 3.0)]
    (mean,) = mean_of(samples)
    (series,) = mean.measured
    assert series.spread == pytest.approx((math.sqrt(2), 2 * math.sqrt(2)))
    (alone,) = mean_of(samples[:1])
    assert alone.measured[0].spread == ()
    assert {each.spread for each in alone.facts} == {None}


def test_predictions_have_no_spread() -> None:
    samples = [[changed(series=(Series(role="predicted", x=(1,), y=(y,)),))] for y in (1.0, 3.0)]
    (mean,) = mean_of(samples)
    assert mean.predicted[0].spread == ()


def test_conclusions_have_a_spread_too() -> None:
    """The slope of the mean line, with the deviation of the samples' own slopes."""
    samples = [[changed(series=(Series(x=(1, 2), y=y),))] for y in ((1.0, math.e), (1.0, math.e**3))]
    (mean,) = mean_of(samples)
    assert fact(mean, "slope") == pytest.approx(math.log((math.e + math.e**3) / 2))
    (slope,) = mean.find_facts("slope")
    assert slope.spread == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    "content",
    [
        [{"series": (Series(x=tuple(range(length)), y=(1,) * length),)} for length in (1, 2)],
        [{"grids": (Grid(values=((1.0,) * size,) * size, rows="", columns=""),)} for size in (1, 2)],
    ],
)
def test_samples_at_different_places_have_no_mean(content: list[dict[str, Any]]) -> None:
    one, two = (changed(**each) for each in content)
    with pytest.raises(NotMeasurable, match=r"not the same in every pass.*model.eval\(\)"):
        average([one, two])
    means, (missing,) = average_all([[one], [two]])
    assert (means, missing.key) == ([], "gradient-by-layer")


def test_a_series_that_some_samples_lack_is_averaged_over_the_others() -> None:
    here, there = (Series(location=Location(stack=name), x=(1,), y=(y,)) for name, y in (("a", 1.0), ("b", 5.0)))
    mean = average([changed(series=(here, there)), changed(series=(here,))])
    assert (line(mean, stack="a"), line(mean, stack="b")) == ((1.0,), (5.0,))
