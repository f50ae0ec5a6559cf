"""Means and standard deviations of measures that were taken several times: over mini-batches, seeds or batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from lamina.diagnose.results import Grid, Measure, Series

Labelled = TypeVar("Labelled", Series, Grid)


def average(measures: Sequence[Measure], *, spread: bool = False) -> Measure:
    """The mean of every number. With `spread`, measured series get their sample standard deviations, from two on.

    A line or a fact that some samples lack is averaged over those that have it.
    """
    if len(measures) == 1:
        return measures[0]
    changes = {
        "measured": tuple(_mean_series(group, spread) for group in _by_label(each.measured for each in measures)),
        "theory": tuple(_mean_series(group, False) for group in _by_label(each.theory for each in measures)),
        "grids": tuple(_mean_grid(group) for group in _by_label(each.grids for each in measures)),
        "facts": _mean_facts(measures),
    }
    return measures[0].model_copy(update=changes)


def _by_label(samples: Iterable[Sequence[Labelled]]) -> list[list[Labelled]]:
    groups: dict[str, list[Labelled]] = {}
    for sample in samples:
        for each in sample:
            groups.setdefault(each.label, []).append(each)
    return list(groups.values())


def _mean_series(group: Sequence[Series], spread: bool) -> Series:
    if len({each.x for each in group}) > 1:
        raise ValueError(f"samples of {group[0].label!r} were taken at different places")
    numbers = np.array([each.y for each in group])
    with np.errstate(invalid="ignore"):  # infinities are results too
        deviations = tuple(numbers.std(axis=0, ddof=1).tolist()) if spread and len(group) > 1 else ()
        return group[0].model_copy(update={"y": tuple(numbers.mean(axis=0).tolist()), "spread": deviations})


def _mean_grid(group: Sequence[Grid]) -> Grid:
    values = np.array([each.values for each in group]).mean(axis=0)
    return group[0].model_copy(update={"values": tuple(map(tuple, values.tolist()))})


def _mean_facts(measures: Sequence[Measure]) -> dict[str, float]:
    names = dict.fromkeys(name for each in measures for name in each.facts)
    return {name: float(np.mean([each.facts[name] for each in measures if name in each.facts])) for name in names}
