"""Samples: one number for every seed, with means, paired differences and 95 % intervals.

A value without a seed is exact: a formula, or a measurement that no random number enters. None stands for a run that
failed, which has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np

from lamina.errors import UserError
from lamina.formatting import short

CONFIDENCE = 0.95
SampleSeed = int | None
"""The seed of a value; None for an exact one."""


@dataclass(frozen=True)
class Interval:
    """A 95 % confidence interval of a mean."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return short(self.mean)
        return f"{short(self.mean)} [{short(self.low)}, {short(self.high)}]"


@dataclass(frozen=True)
class Sample:
    """The values of one quantity under one condition, by seed."""

    by_seed: Mapping[SampleSeed, float | None]

    @classmethod
    def exact(cls, value: float) -> Self:
        return cls({None: value})

    @property
    def is_exact(self) -> bool:
        return set(self.by_seed) == {None}

    @property
    def values(self) -> list[float]:
        """The values of the seeds that have one."""
        return [value for value in self.by_seed.values() if value is not None]

    @property
    def num_failed(self) -> int:
        return sum(value is None for value in self.by_seed.values())

    @property
    def mean(self) -> float:
        return float(np.mean(self.values)) if self.values else math.nan

    def interval(self) -> Interval:
        """mean ± t · s / √n, with Student's t of n − 1 degrees of freedom; infinitely wide for a single seed."""
        values = np.array(self.values)
        if self.is_exact:
            return Interval(self.mean, self.mean, self.mean)
        if len(values) < 2:
            return Interval(self.mean, -math.inf, math.inf)
        half = student_t(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
        return Interval(self.mean, self.mean - half, self.mean + half)

    @property
    def half_width(self) -> float | None:
        """Half the width of that interval; None for an exact value, and for fewer than two seeds."""
        if self.is_exact or len(self.values) < 2:
            return None
        interval = self.interval()
        return (interval.high - interval.low) / 2

    def map(self, function: Callable[[float], float]) -> Sample:
        """The function of every value."""
        return Sample({seed: None if value is None else function(value) for seed, value in self.by_seed.items()})

    def __sub__(self, other: Sample | float) -> Sample:
        return self._combined(other, lambda one, two: one - two)

    def __truediv__(self, other: Sample | float) -> Sample:
        return self._combined(other, lambda one, two: one / two if two else math.nan)

    def _combined(self, other: Sample | float, function: Callable[[float, float], float]) -> Sample:
        """SampleSeed by seed; an exact operand is combined with every seed. Pairs of which one failed are None."""
        other = Sample.exact(float(other)) if isinstance(other, int | float) else other
        if self.is_exact or other.is_exact:
            seeds: Sequence[SampleSeed] = list(other.by_seed if self.is_exact else self.by_seed)
        else:
            seeds = [seed for seed in self.by_seed if seed in other.by_seed]
        if not seeds:
            raise UserError("the two samples have no seed in common")
        combined: dict[SampleSeed, float | None] = {}
        for seed in seeds:
            one, two = (each.by_seed[None if each.is_exact else seed] for each in (self, other))
            combined[seed] = None if one is None or two is None else function(one, two)
        return Sample(combined)


def fit_line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope and R² of the least-squares line with an intercept; R² is 1 where all y are equal."""
    if len(x) < 2:
        raise UserError("a line needs at least two points")
    slope, intercept = np.polyfit(np.array(x, dtype=float), np.array(y, dtype=float), 1)
    residuals = np.array(y) - (slope * np.array(x) + intercept)
    total = float(((np.array(y) - np.mean(y)) ** 2).sum())
    return float(slope), 1.0 - float((residuals**2).sum()) / total if total else 1.0


@cache
def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t distribution, by bisection on its distribution function.

    The density is integrated by Simpson's rule in θ, where t = √ν · tan θ: it is then cos^(ν−1) θ up to a constant,
    which is smooth and bounded on the half-open interval from 0 to π/2.
    """
    if freedom < 1:
        raise UserError("an interval needs at least two values")
    low, high = 0.0, math.pi / 2
    total = _integral(freedom, high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _integral(freedom, middle) < confidence * total else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _integral(freedom: int, end: float, steps: int = 400) -> float:
    """∫ cos^(ν−1) θ dθ from 0 to `end`."""
    theta = np.linspace(0.0, end, steps + 1)
    weights = np.ones(steps + 1)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float((weights * np.cos(theta) ** (freedom - 1)).sum() * end / steps / 3)
