from __future__ import annotations

import math

import pytest

from lamina.diagnosis.measures.cosine_of_layers import CosineOfLayers
from support.recorded import by_hand, fact, take, tensor_record


def test_cosines() -> None:
    states = [tensor_record(rows) for rows in ([[9.0, 9.0], [9.0, 9.0]], [[1, 0], [0, 2]], [[1, 1], [0, -1]])]
    found = take(CosineOfLayers, by_hand(states))
    (grid,) = found.grids
    cosine = (math.sqrt(0.5) - 1) / 2
    assert [value for row in grid.values for value in row] == pytest.approx([1, cosine, cosine, 1])
    assert fact(found, "first with last", stack="stack") == pytest.approx(cosine)
    assert fact(found, "all with last", stack="stack") == pytest.approx(cosine)
