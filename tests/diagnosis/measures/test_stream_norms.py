from __future__ import annotations

import torch
from torch import nn

from lamina.diagnosis.measures.reading import placement_of
from lamina.diagnosis.measures.stream_norms import StreamNorms
from lamina.diagnosis.recording.records import NormRecord
from support.recorded import by_hand, fact, line, take, tensor_record


def test_mean_squares() -> None:
    states = [tensor_record([[1, 1], [3, 1]]), tensor_record([[2, 0], [0, 0]])]
    found = take(StreamNorms, by_hand(states, [tensor_record([[1, 2], [0, 1]])]))
    assert line(found, stack="stack", quantity="stream") == (3.0, 1.0)  # (2 + 10) / 2 / 2, (4 + 0) / 2 / 2
    assert found.select(quantity="stream")[0].x == (0, 1)
    assert line(found, stack="stack", quantity="branch") == (1.5,)
    assert found.predicted == ()  # Lemma 2 does not cover sub-layers of kind "x"


def test_only_real_positions_count() -> None:
    states = [tensor_record([[1, 1], [9, 9]]), tensor_record([[2, 0], [9, 9]])]
    padded = by_hand(states, real=torch.tensor([True, False]))
    assert line(take(StreamNorms, padded), quantity="stream") == (1.0, 2.0)


def test_concentration_is_the_share_far_above_the_mean() -> None:
    x = tensor_record([[2.0, 0], [1, 0], [1, 0], [1, 0]])  # squares over d: 2, ½, ½, ½; mean 0.875
    norm = NormRecord("n", nn.LayerNorm(2), None, x, x)
    assert fact(take(StreamNorms, by_hand([x, x], norms=[norm])), "δ", stack="stack") == 0.25


def test_lemma_2_counts_the_kinds_of_sublayers(float64: None) -> None:
    x, y = tensor_record(torch.ones(4, 2)), tensor_record(2 * torch.ones(4, 2))
    z = tensor_record(torch.randn(4, 2))
    norms = [NormRecord("n", nn.LayerNorm(2), index, x, z) for index in range(3)]
    record = by_hand([x, y, y, y], [y, y, y], norms, ["self-attention", "cross-attention", "feed-forward"], 3)
    for sublayer in record.stacks[0].sublayers:
        sublayer.read = z  # the norms' output: pre-LN
    assert placement_of(record.stacks[0]) == "pre"
    found = take(StreamNorms, record)
    assert line(found, role="bound", quantity="at least") == (1, 1, 1, 1.5)
    assert line(found, role="bound", quantity="at most") == (1, 2, 3, 3.5)
