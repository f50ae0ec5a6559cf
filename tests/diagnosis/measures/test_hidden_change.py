from __future__ import annotations

import pytest

from lamina.diagnosis.measures.hidden_change import HiddenChange
from support.recorded import by_hand, fact, line, take, tensor_record


def test_normalised_states_are_compared() -> None:
    states = [tensor_record([[1.0, 3.0]]), tensor_record([[10.0, 30.0]]), tensor_record([[3.0, 1.0]])]
    assert line(take(HiddenChange, by_hand(states)), stack="stack") == pytest.approx((0.0, 2.0))


def test_small_streams_are_compared_like_large_ones() -> None:
    states = [tensor_record([[1e-3, 3e-3]]), tensor_record([[3e-3, 1e-3]])]
    assert line(take(HiddenChange, by_hand(states)), stack="stack") == pytest.approx((2.0,), rel=1e-5)


def test_the_last_third_is_compared_with_the_first() -> None:
    up, down = tensor_record([[1.0, 3.0]]), tensor_record([[3.0, 1.0]])
    found = take(HiddenChange, by_hand([up, down, down, down]))
    assert fact(HiddenChange().conclude(found), "last/first third", stack="stack") == 0.0
