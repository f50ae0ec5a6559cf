"""The measure `effective-rank`."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from lamina.diagnosis.measures.effective_rank import LAST_TO_FIRST, EffectiveRank, effective_rank
from support.recorded import by_hand, fact, line, mean_of, take, tensor_record


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_the_entropy_of_the_singular_values(float64: None, shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    values = torch.linalg.svdvals(x).tolist()
    shares = [each / sum(values) for each in values]
    assert effective_rank(x) == pytest.approx(exp(-sum(p * log(p) for p in shares)) / 4, rel=1e-6)


def test_positions_that_become_alike(float64: None) -> None:
    different, same = torch.eye(4), torch.ones(4, 4)
    states = [tensor_record(each) for each in (different, different, same)]
    (found,) = mean_of([[take(EffectiveRank, by_hand(states))]])
    assert line(found, stack="stack") == pytest.approx((1.0, 0.25), abs=1e-5)
    assert fact(found, LAST_TO_FIRST) == pytest.approx(0.25, abs=1e-5)


def test_numbers_that_are_not_finite() -> None:
    assert str(effective_rank(torch.full((3, 3), torch.nan))) == "nan"
