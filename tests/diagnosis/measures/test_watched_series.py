from __future__ import annotations

import math

from lamina.diagnosis.measures.watched_series import weakest_by_stack
from support.observations import matrix, observation


def test_layers_without_gradient_and_infinite_gradients_are_not_compared() -> None:
    assert weakest_by_stack(observation(1, matrix(1, 0.0), matrix(2, 0.5), matrix(3, 1.0)))["decoder"] == (2, 3, 0.5)
    assert weakest_by_stack(observation(1, matrix(1, math.inf), matrix(2, 1.0))) == {}
