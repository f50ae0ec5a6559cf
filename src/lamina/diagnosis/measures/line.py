"""A least-squares line with intercept, and ratios that survive zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def ratio(one: float, other: float) -> float:
    """NaN where there is nothing to compare with."""
    return one / other if other else float("nan")


class Line(NamedTuple):
    slope: float
    intercept: float
    r_squared: float
    """1 − residual ÷ total sum of squares; NaN where y does not vary."""


def fit(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Line:
    """y ~ slope·x + intercept; NaN everywhere with fewer than two distinct x, or with numbers that are not finite."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(np.unique(x)) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return Line(np.nan, np.nan, np.nan)
    centred, rise = x - x.mean(), y - y.mean()
    slope = float(centred @ rise / (centred @ centred))
    total = float(rise @ rise)
    left = float(np.square(rise - slope * centred).sum())
    return Line(slope, float(y.mean() - slope * x.mean()), 1 - ratio(left, total))


def fit_logarithms(x: Sequence[float], y: Sequence[float]) -> Line:
    """ln y ~ slope·ln x + intercept: the power of x with which y goes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return fit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)))


def fit_exponential(x: Sequence[float], y: Sequence[float]) -> Line:
    """ln y ~ slope·x + intercept: the rate with which y grows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return fit(x, np.log(np.asarray(y, dtype=float)))
