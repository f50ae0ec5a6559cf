"""Samples: intervals, paired differences, and lines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lamina.errors import UserError
from lamina.studies.samples import Interval, Sample, fit_line, student_t


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (30, 2.04227), (1000, 1.96234)]
)
def test_quantiles_of_student_t_are_those_of_tables(freedom: int, expected: float) -> None:
    assert student_t(freedom) == pytest.approx(expected, rel=2e-5)


def test_an_interval_is_the_mean_with_t_times_the_standard_error() -> None:
    values = [1.0, 2.0, 4.0]
    half = 4.30265 * np.std(values, ddof=1) / math.sqrt(3)
    found = Sample(dict(enumerate(values))).interval()
    assert (found.mean, found.low, found.high) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-4)


def test_intervals_cover_the_mean_in_95_of_100_samples() -> None:
    draws = np.random.default_rng(1).normal(3.0, 2.0, (2000, 5))
    intervals = [Sample(dict(enumerate(row.tolist()))).interval() for row in draws]
    assert 0.93 < np.mean([each.low <= 3 <= each.high for each in intervals]) < 0.97


def test_an_exact_value_has_no_width_and_one_seed_says_nothing() -> None:
    assert Sample.exact(2.5).interval() == Interval(2.5, 2.5, 2.5)
    assert Sample({1: 2.5}).interval() == Interval(2.5, -math.inf, math.inf)
    assert str(Sample.exact(2.5).interval()) == "2.5"


def test_differences_are_paired_by_seed() -> None:
    one, other = Sample({1: 5.0, 2: 7.0, 3: 1.0}), Sample({2: 1.0, 1: 2.0})
    assert (one - other).by_seed == {1: 3.0, 2: 6.0}
    assert (one - 1.0).by_seed == {1: 4.0, 2: 6.0, 3: 0.0}
    assert (Sample.exact(8.0) / other).by_seed == {2: 8.0, 1: 4.0}


def test_a_failed_run_has_no_difference() -> None:
    assert (Sample({1: None, 2: 3.0}) - Sample({1: 1.0, 2: 1.0})).by_seed == {1: None, 2: 2.0}
    assert Sample({1: None, 2: 3.0}).num_failed == 1


def test_samples_without_a_common_seed_are_refused() -> None:
    with pytest.raises(UserError, match="no seed in common"):
        Sample({1: 1.0}) - Sample({2: 1.0})


def test_a_line_is_that_of_least_squares() -> None:
    slope, r_squared = fit_line([1, 2, 3, 4], [2.0, 3.0, 5.0, 6.0])
    assert slope == pytest.approx(1.4)
    assert r_squared == pytest.approx(0.98)
    assert fit_line([1, 2], [3.0, 3.0]) == (pytest.approx(0.0, abs=1e-12), 1.0)
