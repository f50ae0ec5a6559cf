"""The measure `watched-total-gradient`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_total_gradient import NORM, VARIATION, WatchedTotalGradient
from support.observations import matrix, observation
from support.recorded import fact, line


def test_the_norm_over_all_matrices() -> None:
    steps = [observation(5, matrix(1, 3.0), matrix(2, 4.0)), observation(10)]
    steps.append(observation(15, matrix(1, 5.0)))
    found = WatchedTotalGradient().take(Evidence(history=steps))
    assert line(found) == (5.0, 5.0)
    assert (fact(found, NORM), fact(found, VARIATION)) == (5.0, 0.0)


def test_without_gradients() -> None:
    with pytest.raises(NotMeasurable, match="finite"):
        WatchedTotalGradient().take(Evidence(history=[observation(5)]))
