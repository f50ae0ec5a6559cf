"""The measure `attention-entropy`."""

from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.attention_entropy import ENTROPY, AttentionEntropy
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.recording.attention import AttentionRecord
from lamina.diagnosis.recording.records import Record
from support.recorded import fact, line, take


def test_the_mean_over_heads() -> None:
    record = Record(0.0, [])
    for layer, heads in ((1, (0.2, 0.4)), (2, (1.0, 0.9))):
        place = Location(stack="stack", layer=layer, sublayer_kind="self-attention", module=f"h.{layer}")
        record.calls.attention.append(AttentionRecord(place, torch.zeros(2), torch.tensor(heads)))
    found = take(AttentionEntropy, record)
    assert line(found, stack="stack") == pytest.approx((0.3, 0.95))
    assert fact(found, ENTROPY, module="h.1") == pytest.approx(0.3)
    assert found.grids[0].values[1] == pytest.approx((1.0, 0.9))


def test_a_model_without_attention() -> None:
    with pytest.raises(NotMeasurable, match="no attention"):
        take(AttentionEntropy, Record(0.0, []))
