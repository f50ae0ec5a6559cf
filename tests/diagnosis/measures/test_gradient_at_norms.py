from __future__ import annotations

import math

import pytest
from torch import nn

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.gradient_at_norms import GradientAtNorms
from lamina.diagnosis.recording.records import NormRecord
from support.recorded import by_hand, fact, line, take, tensor_record


def test_inputs_and_outputs() -> None:
    x = tensor_record([[1.0]], 1.0)
    norms = [
        NormRecord("n", nn.LayerNorm(1), place, tensor_record([[1.0]], below), tensor_record([[1.0]], above))
        for place, below, above in [(0, 2.0, 4.0), (1, 3.0, 4.0), (None, 5.0, 4.0)]
    ]

    def measured() -> Measurement:
        return take(GradientAtNorms, by_hand([x, x, x], norms=norms, kinds=["feed-forward"] * 2))

    found = measured()
    assert line(found, stack="stack", quantity="input") == (2, 3, 5)
    assert line(found, stack="stack", quantity="output") == (4, 4, 4)
    assert fact(found, "input/output", sublayer_kind="feed-forward") == 0.625
    assert fact(found, "input/output", sublayer_kind="end") == 1.25
    norms[0].input.gradient_norm = None  # an input that no trained weight has touched
    found = measured()
    assert math.isnan(line(found, quantity="input")[0])
    assert fact(found, "input/output", sublayer_kind="feed-forward") == 0.75
    for norm in norms:
        norm.input.gradient_norm = None
    with pytest.raises(NotMeasurable, match="no gradient reached the norms"):
        measured()
    norms.clear()
    with pytest.raises(NotMeasurable, match="no norms"):
        measured()
