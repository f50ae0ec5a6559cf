"""Means, standard deviations and least-squares lines of measurements that were taken several times.

Seeds are samples: their mean is shown, with the standard deviation. Batches of one model are parts of one sample, since
the expected gradient is a mean over all of them: each part is left out in turn (the jackknife). The pseudo-values
p·θ − (p−1)·θ₋ᵢ of p parts have p − 1 times the standard deviation of the θ₋ᵢ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from lamina.diagnosis.measurement import Fact, Grid, Location, Measurement, Series
from lamina.diagnosis.measures.base import NotMeasurable


class _Identified(Protocol):
    @property
    def identity(self) -> Hashable: ...


Identified = TypeVar("Identified", bound=_Identified)


def average(samples: Sequence[Measurement]) -> Measurement:
    """The mean of every number. A series or a fact that some samples lack is averaged over those that have it."""
    if len(samples) == 1:
        return samples[0]
    return samples[0].model_copy(
        update={
            "series": tuple(_mean_series(group) for group in _grouped(each.series for each in samples)),
            "grids": tuple(_mean_grid(group) for group in _grouped(each.grids for each in samples)),
            "facts": tuple(_mean_fact(group) for group in _grouped(each.facts for each in samples)),
        }
    )


def with_spread(measurement: Measurement, samples: Sequence[Measurement], scale: float = 1.0) -> Measurement:
    """The measurement with the standard deviations of its measured series and facts over the samples, times `scale`."""
    series = [
        each.model_copy(update={"spread": tuple(_deviations([other.y for other in _same(each, samples)], scale))})
        if each.role == "measured"
        else each
        for each in measurement.series
    ]
    facts = [
        fact.model_copy(update={"spread": spread_of([other.value for other in found], scale)})
        for fact in measurement.facts
        for found in [[other for each in samples for other in each.facts if other.identity == fact.identity]]
    ]
    return measurement.model_copy(update={"series": tuple(series), "facts": tuple(facts)})


def spread_of(values: Sequence[float], scale: float = 1.0) -> float | None:
    """The sample standard deviation times `scale`; None of fewer than two values."""
    return _deviations([(each,) for each in values], scale)[0] if len(values) > 1 else None


def _deviations(samples: Sequence[Sequence[float]], scale: float) -> list[float]:
    if len(samples) < 2:
        return []
    with np.errstate(invalid="ignore"):  # infinite values give NaN
        return (scale * np.array(samples).std(axis=0, ddof=1)).tolist()


def _same(series: Series, samples: Sequence[Measurement]) -> list[Series]:
    """The same series in every sample that has it at the same x."""
    return [
        other
        for sample in samples
        for other in sample.series
        if other.identity == series.identity and other.x == series.x
    ]


def _grouped(samples: Iterable[Sequence[Identified]]) -> list[list[Identified]]:
    groups: dict[Hashable, list[Identified]] = {}
    for sample in samples:
        for each in sample:
            groups.setdefault(each.identity, []).append(each)
    return list(groups.values())


def _mean_series(group: Sequence[Series]) -> Series:
    _refuse_different(group[0].location, [each.x for each in group])
    with np.errstate(invalid="ignore"):
        return group[0].model_copy(update={"y": tuple(np.array([each.y for each in group]).mean(axis=0).tolist())})


def _mean_grid(group: Sequence[Grid]) -> Grid:
    _refuse_different(group[0].location, [tuple(map(len, each.values)) for each in group])
    values = np.array([each.values for each in group]).mean(axis=0)
    return group[0].model_copy(update={"values": tuple(map(tuple, values.tolist()))})


def _mean_fact(group: Sequence[Fact]) -> Fact:
    return group[0].model_copy(update={"value": float(np.mean([each.value for each in group]))})


def _refuse_different(location: Location, places: Sequence[tuple[float, ...]]) -> None:
    if len(set(places)) > 1:
        raise NotMeasurable(
            f"the {location} was not the same in every pass, as when layers are dropped at random: there is no mean; "
            "switch that off, or call model.eval() first"
        )


def ratio(one: float, other: float) -> float:
    """one ÷ other; NaN where the other is zero."""
    return one / other if other else float("nan")


class Fit(NamedTuple):
    """A least-squares line with intercept."""

    slope: float
    intercept: float
    r_squared: float
    """1 − residual ÷ total sum of squares; NaN where y does not vary."""


def fit(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Fit:
    """y ~ slope·x + intercept; NaN everywhere with fewer than two distinct x, or with numbers that are not finite."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(np.unique(x)) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return Fit(np.nan, np.nan, np.nan)
    centred, rise = x - x.mean(), y - y.mean()
    slope = float(centred @ rise / (centred @ centred))
    total = float(rise @ rise)
    residual = float(np.square(rise - slope * centred).sum())
    return Fit(slope, float(y.mean() - slope * x.mean()), 1 - ratio(residual, total))


def fit_power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """ln y ~ slope·ln x + intercept: y grows as x to the power of the slope."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return fit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)))


def fit_exponential(x: Sequence[float], y: Sequence[float]) -> Fit:
    """ln y ~ slope·x + intercept: y grows as e to the slope times x."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return fit(x, np.log(np.asarray(y, dtype=float)))
