"""Operations on the residual stream, given one by one, become a record of sub-layers and norms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.stream_trace import StreamTrace
from lamina.diagnosis.recording.structure import RepeatedLayers
from lamina.diagnosis.recording.taps import Taps


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.second_norm = nn.LayerNorm(4), nn.LayerNorm(4)


@pytest.fixture
def layers() -> tuple[Layer, Layer]:
    return Layer(), Layer()


@pytest.fixture
def trace(layers: tuple[Layer, Layer]) -> StreamTrace:
    return StreamTrace(RepeatedLayers("stack", "stack.layers", layers, period=1), Taps())


def branch_sum(trace: StreamTrace, x: Tensor, branch: Tensor) -> Tensor:
    total = x + branch
    trace.add_function([x, branch], total, is_sum=True)
    return total


def test_post_norm_layers(trace: StreamTrace, layers: tuple[Layer, Layer]) -> None:
    x = torch.randn(3, 4)
    sums = []
    for number, layer in enumerate(layers):
        trace.enter(number, x)
        trace.add_attention()
        for name, norm in (("norm", layer.norm), ("second_norm", layer.second_norm)):
            sums.append(branch_sum(trace, x, torch.randn(3, 4)))
            x = norm(sums[-1])
            trace.add_norm(f"layers.{number}.{name}", norm, sums[-1], x)
        trace.leave(number, x)
    notes: list[str] = []
    record = trace.finish(notes)
    assert record is not None
    assert notes == []
    assert [(each.place.layer, each.place.kind) for each in record.sublayers] == [
        (0, "self-attention"),
        (0, "feed-forward"),
        (1, "self-attention"),
        (1, "feed-forward"),
    ]
    assert [each.place.index for each in record.sublayers] == [0, 1, 2, 3]
    assert [(norm.path, norm.sublayer) for norm in record.norms] == [
        ("layers.0.norm", 0),
        ("layers.0.second_norm", 1),
        ("layers.1.norm", 2),
        ("layers.1.second_norm", 3),
    ]
    for sublayer, total in zip(record.sublayers, sums, strict=True):
        assert sublayer.branch is not None
        torch.testing.assert_close(sublayer.before[0].value + sublayer.branch.value, total)
        assert torch.equal(sublayer.read.value, sublayer.before[0].value)
    assert torch.equal(record.output.value, x)


def test_a_norm_beside_the_stream_is_what_the_branch_reads(trace: StreamTrace, layers: tuple[Layer, Layer]) -> None:
    x, final = torch.randn(3, 4), nn.LayerNorm(4)
    normed = []
    for number, layer in enumerate(layers):
        trace.enter(number, x)
        normed.append(layer.norm(x))
        trace.add_norm(f"layers.{number}.norm", layer.norm, x, normed[-1])
        x = branch_sum(trace, x, torch.randn(3, 4))
        trace.leave(number, x)
    trace.add_norm("final", final, x, final(x))
    record = trace.finish([])
    assert record is not None
    assert [(norm.path, norm.sublayer) for norm in record.norms] == [
        ("layers.0.norm", 0),
        ("layers.1.norm", 1),
        ("final", None),
    ]
    for sublayer, read in zip(record.sublayers, normed, strict=True):
        assert torch.equal(sublayer.read.value, read)
    assert torch.equal(record.output.value, final(x))


def test_cross_attention_is_named(trace: StreamTrace) -> None:
    x = torch.randn(3, 4)
    for number in range(2):
        trace.enter(number, x)
        trace.add_attention()
        trace.add_cross_attention()
        x = branch_sum(trace, x, torch.randn(3, 4))
        trace.leave(number, x)
    record = trace.finish([])
    assert record is not None
    assert [each.place.kind for each in record.sublayers] == ["cross-attention"] * 2


def test_layers_without_a_sum_are_shown_whole_with_a_note(trace: StreamTrace) -> None:
    x = torch.randn(3, 4)
    for number in range(2):
        trace.enter(number, x)
        x = torch.randn(3, 4)
        trace.leave(number, x)
    notes: list[str] = []
    record = trace.finish(notes)
    assert record is not None
    assert notes == ["stack: no residual sum was found in 2 of 2 layers, which are shown whole"]
    assert [(each.place.kind, each.branch) for each in record.sublayers] == [("layer", None)] * 2


def test_a_stack_that_cannot_be_recorded_is_left_out_with_the_reason(layers: tuple[Layer, Layer]) -> None:
    repeated, notes = RepeatedLayers("stack", "stack.layers", layers, period=1), list[str]()
    once = StreamTrace(repeated, Taps())
    once.enter(0, torch.randn(3, 4))
    once.leave(0, torch.randn(3, 4))
    assert once.finish(notes) is None
    narrowing = StreamTrace(repeated, Taps())
    for number, dim in enumerate((4, 2)):
        narrowing.enter(number, torch.randn(3, dim))
        narrowing.leave(number, torch.randn(3, 2))
    assert narrowing.finish(notes) is None
    assert notes == [
        "stack: left out, 1 of its 2 layers ran",
        "stack: left out, its layers change the shape of their input",
    ]
