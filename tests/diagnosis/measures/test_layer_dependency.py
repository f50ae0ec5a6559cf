from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.layer_dependency import LayerDependency
from lamina.diagnosis.recording.records import NormRecord
from support.recorded import by_hand, fact, take, tensor_record


def test_foreign_sums_and_norms(float64: None) -> None:
    x, branch = tensor_record([[1.0, -1.0]]), tensor_record([[3.0, -3.0]])
    found = take(LayerDependency, by_hand([x, tensor_record([[4.0, -4.0]])], [branch]))
    (grid,) = found.grids
    assert grid.values[0] == pytest.approx((0.25, 0.75))
    assert grid.first_column == 0
    assert fact(LayerDependency().conclude(found), "Σβᵢᵢ²", stack="stack") == pytest.approx(0.75**2)
    norm = nn.LayerNorm(2, eps=0.0)
    after = tensor_record(norm(torch.tensor([[4.0, -4.0]])).detach())
    record = by_hand([x, after], [branch], [NormRecord("n", norm, 0, tensor_record([[4.0, -4.0]]), after)])
    assert take(LayerDependency, record).grids[0].values[0] == pytest.approx((0.25, 0.75))
    with pytest.raises(NotMeasurable, match="neither a sum"):
        take(LayerDependency, by_hand([x, tensor_record([[7.0, 7.0]])], [branch]))
