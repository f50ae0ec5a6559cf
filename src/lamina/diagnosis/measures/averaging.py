"""Means of measures that were taken several times, over mini-batches or seeds, and how much the samples differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.results import Grid, Measure, Series

Labelled = TypeVar("Labelled", Series, Grid)


def average(measures: Sequence[Measure]) -> Measure:
    """The mean of every number. A line or a fact that some samples lack is averaged over those that have it."""
    if len(measures) == 1:
        return measures[0]
    changes = {
        "measured": tuple(_mean_series(group) for group in _by_label(each.measured for each in measures)),
        "theory": tuple(_mean_series(group) for group in _by_label(each.theory for each in measures)),
        "grids": tuple(_mean_grid(group) for group in _by_label(each.grids for each in measures)),
        "facts": _mean_facts(measures),
    }
    return measures[0].model_copy(update=changes)


def with_spread(measure: Measure, samples: Sequence[Measure], scale: float = 1.0) -> Measure:
    """With the sample standard deviations of its lines and facts, times `scale`; from two samples on."""
    lines = [
        line.model_copy(update={"spread": tuple(_deviations([each.y for each in _alike(line, samples)], scale))})
        for line in measure.measured
    ]
    found = {name: [each.facts[name] for each in samples if name in each.facts] for name in measure.facts}
    spreads = {name: deviation(values, scale) for name, values in found.items() if len(values) > 1}
    return measure.model_copy(update={"measured": tuple(lines), "fact_spreads": spreads})


def deviation(values: Sequence[float], scale: float = 1.0) -> float:
    (found,) = _deviations([(each,) for each in values], scale)
    return found


def _deviations(samples: Sequence[Sequence[float]], scale: float) -> list[float]:
    if len(samples) < 2:
        return []
    with np.errstate(invalid="ignore"):  # infinities are results too
        return (scale * np.array(samples).std(axis=0, ddof=1)).tolist()


def _alike(line: Series, samples: Sequence[Measure]) -> list[Series]:
    """The same line in every sample that has it, at the same places."""
    return [each for sample in samples for each in sample.measured if (each.label, each.x) == (line.label, line.x)]


def _by_label(samples: Iterable[Sequence[Labelled]]) -> list[list[Labelled]]:
    groups: dict[str, list[Labelled]] = {}
    for sample in samples:
        for each in sample:
            groups.setdefault(each.label, []).append(each)
    return list(groups.values())


def _mean_series(group: Sequence[Series]) -> Series:
    _refuse_unlike(group[0].label, [each.x for each in group])
    with np.errstate(invalid="ignore"):
        return group[0].model_copy(update={"y": tuple(np.array([each.y for each in group]).mean(axis=0).tolist())})


def _mean_grid(group: Sequence[Grid]) -> Grid:
    _refuse_unlike(group[0].label, [tuple(map(len, each.values)) for each in group])
    values = np.array([each.values for each in group]).mean(axis=0)
    return group[0].model_copy(update={"values": tuple(map(tuple, values.tolist()))})


def _refuse_unlike(label: str, places: Sequence[tuple[float, ...]]) -> None:
    if len(set(places)) > 1:
        raise NotMeasurable(
            f"the {label} was not the same in every pass, as when layers are dropped at random: there is no mean; "
            "switch that off, or call model.eval() first"
        )


def _mean_facts(measures: Sequence[Measure]) -> dict[str, float]:
    names = dict.fromkeys(name for each in measures for name in each.facts)
    return {name: float(np.mean([each.facts[name] for each in measures if name in each.facts])) for name in names}
