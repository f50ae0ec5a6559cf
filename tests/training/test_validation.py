"""The best step so far."""

from __future__ import annotations

import pytest

from lamina.training.validation import Best


@pytest.mark.parametrize(("higher", "values"), [(False, [3.0, 2.0, 2.0, 5.0, 1.0]), (True, [3.0, 4.0, 4.0, 1.0, 5.0])])
def test_better_is_strictly_better_and_waiting_is_counted(higher: bool, values: list[float]) -> None:
    best = Best("score", higher)
    assert [best.update(step, value) for step, value in enumerate(values)] == [True, True, False, False, True]
    assert (best.step, best.value, best.not_better) == (4, values[4], 0)


def test_it_goes_on_where_it_stood_unless_the_number_is_another() -> None:
    best = Best("bleu", True)
    best.update(10, 20.0)
    best.update(20, 19.0)
    resumed = Best("bleu", True, best.state())
    assert (resumed.step, resumed.value, resumed.not_better) == (10, 20.0, 1)
    assert not resumed.update(30, 20.0)
    assert Best("nll", False, best.state()).step is None
