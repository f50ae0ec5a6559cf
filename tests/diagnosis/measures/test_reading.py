from __future__ import annotations

import torch
from torch import nn

from lamina.diagnosis.measures.reading import placement_of
from lamina.diagnosis.recording.records import NormRecord
from support.recorded import by_hand, tensor_record


def test_the_placement_follows_from_the_outputs_of_the_norms() -> None:
    x, y, z = (tensor_record(torch.randn(4, 2)) for _ in range(3))
    norm = NormRecord("n", nn.LayerNorm(2), 0, x, y)
    assert placement_of(by_hand([x, y], [z], [norm]).stacks[0]) == "post"
    assert placement_of(by_hand([x, y, z], [z, z], [norm]).stacks[0]) == "post"  # the second reads y, the stream
    pre = by_hand([x, z], [z], [norm])
    pre.stacks[0].sublayers[0].read = y
    assert placement_of(pre.stacks[0]) == "pre"
    assert placement_of(by_hand([x, z], [z], [norm]).stacks[0]) == "none"
    assert placement_of(by_hand([x, y], None, [norm]).stacks[0]) is None
