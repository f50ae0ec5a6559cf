"""Recording modules that Lamina knows nothing of: torch's own here, other libraries' under the marker `peers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina.diagnosis.recording.foreign import recording
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.recording.records import Record, StackRecord
from support.foreign_models import DIM, HUGGING_FACE, IDS, hugging_face

ATTENTION, CROSS, FEED_FORWARD = "self-attention", "cross-attention", "feed-forward"


def encoder(num_layers: int = 3, **options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(DIM, 2, 32, batch_first=True, **options)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def record(model: nn.Module, *arguments: Any, **options: Any) -> tuple[Record, list[str]]:
    def run(model: nn.Module) -> Tensor:
        output = model(*arguments, **options)
        loss = getattr(output, "loss", None)
        return output.float().square().mean() if loss is None else loss

    return record_pass(model, run)


def check(stack: StackRecord, kinds: list[str], *, norm_first: bool, num_layers: int = 3) -> None:
    """Check that sums add up, that streams are continuous, and that norms are in the right places."""
    assert stack.num_layers == num_layers
    assert [each.place.kind for each in stack.sublayers] == kinds * num_layers
    assert [each.place.first for each in stack.sublayers] == [True, *[False] * (len(kinds) - 1)] * num_layers
    assert [each.place.last for each in stack.sublayers] == [*[False] * (len(kinds) - 1), True] * num_layers
    inner = [norm for norm in stack.norms if norm.sublayer is not None]
    assert [norm.sublayer for norm in inner] == list(range(len(stack.sublayers)))
    for sublayer, norm in zip(stack.sublayers, inner, strict=True):
        (before,), (after,) = sublayer.before, sublayer.after
        assert sublayer.branch is not None
        total = before.value + sublayer.branch.value
        if norm_first:
            assert torch.equal(norm.input.value, before.value)
            assert torch.equal(sublayer.read.value, norm.output.value)
            assert torch.equal(after.value, total)
        else:
            assert torch.equal(sublayer.read.value, before.value)
            assert torch.equal(norm.input.value, total)
            assert torch.equal(norm.output.value, after.value)
        assert after.gradient_norm is not None
    for one, two in zip(stack.sublayers, stack.sublayers[1:], strict=False):
        assert torch.equal(one.after[0].value, two.before[0].value)


# torch's own


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_encoder(norm_first: bool) -> None:
    model = encoder(norm_first=norm_first)
    found, notes = record(model, torch.randn(2, 5, DIM))
    (stack,) = found.stacks
    assert not notes
    check(stack, [ATTENTION, FEED_FORWARD], norm_first=norm_first)
    kinds = [name.kind for name in found.gradients if name.layer == 1]
    assert kinds == ["query", "key", "value", "output", "inner", "outer"]
    query = next(name for name in found.gradients if name.kind == "query")
    assert found.gradients[query].shape == (DIM, DIM)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_transformer_of_two_stacks_with_final_norms(norm_first: bool) -> None:
    model = nn.Transformer(DIM, 2, 3, 3, 32, norm_first=norm_first)
    encoder_stack, decoder_stack = record(model, torch.randn(5, 2, DIM), torch.randn(6, 2, DIM))[0].stacks
    assert (encoder_stack.name, decoder_stack.name) == ("encoder", "decoder")
    check(encoder_stack, [ATTENTION, FEED_FORWARD], norm_first=norm_first)
    check(decoder_stack, [ATTENTION, CROSS, FEED_FORWARD], norm_first=norm_first)
    for stack in (encoder_stack, decoder_stack):
        assert stack.norms[-1].path == f"{stack.name}.norm"
        assert stack.norms[-1].sublayer is None
        assert stack.output is stack.norms[-1].output


@pytest.mark.parametrize("make", [encoder, lambda: nn.Transformer(DIM, 2, 2, 2, 32, batch_first=True, norm_first=True)])
def test_recording_changes_no_bit(make: Callable[[], nn.Module]) -> None:
    model = make()  # in training mode, with dropout
    x = (torch.randn(2, 5, DIM),) * (1 if isinstance(model, nn.TransformerEncoder) else 2)

    def step(recorded: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        if recorded:
            with recording(model):
                loss = model(*x).square().mean()
                loss.backward()
        else:
            loss = model(*x).square().mean()
            loss.backward()
        return [loss.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]

    for plain, watched in zip(step(False), step(True), strict=True):
        assert torch.equal(plain, watched)
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_positions_that_are_padding_are_known_from_the_mask() -> None:
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    (stack,) = record(encoder(), torch.randn(2, 5, DIM), src_key_padding_mask=padding)[0].stacks
    assert stack.real is not None
    assert torch.equal(stack.real, ~padding)
    assert record(encoder(), torch.randn(2, 5, DIM))[0].stacks[0].real is None


# Modules made for these tests


class Block(nn.Module):
    """A layer in which the stream is scaled and reshaped, and a position is added for the branch only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer, self.norm = nn.Linear(DIM, 32), nn.Linear(32, DIM), nn.LayerNorm(DIM)
        self.position = nn.Parameter(torch.randn(2, 5, DIM))

    def forward(self, x: Tensor) -> Tensor:
        read = self.norm(x + self.position)
        flat = 0.5 * x.reshape(-1, DIM)
        return (flat + self.outer(self.inner(read).relu()).reshape(-1, DIM)).view(x.shape)


def test_scaled_and_reshaped_streams_are_followed_and_other_sums_are_not() -> None:
    (stack,) = record(nn.Sequential(*(Block() for _ in range(3))), torch.randn(2, 5, DIM))[0].stacks
    assert [each.place.kind for each in stack.sublayers] == [FEED_FORWARD] * 3
    for sublayer in stack.sublayers:
        assert sublayer.branch is not None
        total = sublayer.before[0].value + sublayer.branch.value
        assert torch.equal(total.view(2, 5, DIM), sublayer.after[0].value)


class Opaque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


def test_a_layer_without_a_residual_sum_is_shown_whole() -> None:
    found, notes = record(nn.Sequential(*(Opaque() for _ in range(3))), torch.randn(2, 5, DIM))
    (stack,) = found.stacks
    assert [each.place.kind for each in stack.sublayers] == ["layer"] * 3
    assert all(each.branch is None for each in stack.sublayers)
    assert torch.equal(stack.sublayers[0].after[0].value, stack.sublayers[1].before[0].value)
    assert "no residual sum was found in 3 of 3 layers" in notes[0]


class Overwriting(Opaque):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x += self.linear(1.0 * x)
        return x


def test_sums_in_place_are_found_and_said() -> None:
    found, notes = record(nn.Sequential(*(Overwriting() for _ in range(2))), torch.randn(2, 5, DIM))
    assert [each.place.kind for each in found.stacks[0].sublayers] == [FEED_FORWARD] * 2
    assert any("overwritten in place" in note for note in notes)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


def test_what_checkpointing_computes_again_is_not_recorded_again() -> None:
    (stack,) = record(Checkpointed(), torch.randn(2, 5, DIM))[0].stacks
    assert len(stack.sublayers) == 2
    assert len(stack.norms) == 2
    assert all(each.after[0].gradient_norm is not None for each in stack.sublayers)


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.Linear(DIM << at, DIM << (at + 1))) for at in range(2)])
        self.layers = nn.ModuleList([Opaque() for _ in range(2)])
        self.unused = nn.ModuleList([Opaque() for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for stage in self.stages:
            x = stage(x)
        return x


def test_lists_that_change_the_shape_or_never_run_are_left_out_with_a_note() -> None:
    found, notes = record(Growing(), torch.randn(2, 5, DIM))
    assert [stack.name for stack in found.stacks] == ["layers"]
    assert any("stages: left out, its layers change the shape" in note for note in notes)
    assert any("unused: left out, 0 of its 2 layers ran" in note for note in notes)


class ByName(nn.Module):
    """Layers as attributes, in no list."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_repeated_attributes_are_layers_where_there_is_no_list() -> None:
    (stack,) = record(ByName(), torch.randn(2, 5, DIM))[0].stacks
    assert stack.name == "stack"
    assert stack.num_layers == 2


class Layer(nn.Module):
    """A pre-LN layer with attention by hand; `style` is the peculiarity of a library."""

    def __init__(self, style: str = "") -> None:
        super().__init__()
        self.style = style
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.fc1, self.fc2, self.router = nn.Linear(DIM, 32), nn.Linear(32, DIM), nn.Linear(DIM, 4)

    def attend(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.transpose(1, 2), dim=-1)
        return self.out(nn.functional.dropout(weights, 0.1, self.training) @ value)

    def forward(self, x: Tensor) -> Tensor:
        if self.style == "parallel":
            return x + (self.attend(x) + self.fc2(self.fc1(self.norm2(x)).relu()))
        x = x + self.attend(x)
        shape = x.shape
        x = x.reshape(-1, DIM) if self.style == "flat" else x
        read = self.norm2(x)
        gate = torch.softmax(self.router(read), dim=-1)[..., :1] if self.style == "routed" else 1.0
        return (x + gate * self.fc2(self.fc1(read).relu())).view(shape)


class Layers(nn.Module):
    def __init__(self, layers: list[Layer], calls: int = 1) -> None:
        super().__init__()
        self.layers, self.calls = nn.ModuleList(layers), calls

    def forward(self, x: Tensor) -> Tensor:
        for layer in [*self.layers] * self.calls:
            x = layer(x)
        return x


@pytest.mark.parametrize("style", ["", "flat", "routed"])
def test_feed_forwards_that_flatten_or_route(style: str) -> None:
    """OPT flattens all positions; a router of experts has a softmax that is no attention."""
    found, notes = record(Layers([Layer(style) for _ in range(3)]), torch.randn(2, 5, DIM))
    assert not notes
    check(found.stacks[0], [ATTENTION, FEED_FORWARD], norm_first=True)
    assert all(each.after[0].value.shape == (2, 5, DIM) for each in found.stacks[0].sublayers)


def test_parallel_sublayers_are_one_branch() -> None:
    found, _ = record(Layers([Layer("parallel") for _ in range(3)]), torch.randn(2, 5, DIM))
    assert [each.place.kind for each in found.stacks[0].sublayers] == ["attention and feed-forward"] * 3


@pytest.mark.parametrize("listed", [1, 3])
def test_a_layer_that_is_called_several_times_is_several_layers(listed: int) -> None:
    """Once in its list and called three times, as in ALBERT, or three times in its list."""
    found, notes = record(Layers([Layer()] * listed, calls=3 // listed), torch.randn(2, 5, DIM))
    assert not notes
    check(found.stacks[0], [ATTENTION, FEED_FORWARD], norm_first=True)


# Other libraries'


@pytest.mark.peers
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("crossed", [False, True])
def test_x_transformers(norm_first: bool, crossed: bool) -> None:
    library = pytest.importorskip("x_transformers")
    layers = library.Decoder(dim=DIM, depth=3, heads=2, pre_norm=norm_first, cross_attend=crossed)
    model = library.TransformerWrapper(num_tokens=50, max_seq_len=8, attn_layers=layers)
    context = {"context": torch.randn(2, 4, DIM)} if crossed else {}
    found, notes = record(model, IDS, **context)
    (stack,) = found.stacks
    assert not notes
    check(stack, [ATTENTION, *([CROSS] if crossed else []), FEED_FORWARD], norm_first=norm_first)
    kinds = {name.kind for name in found.gradients if name.layer is not None}
    assert kinds == {"query", "key", "value", "output", "inner", "outer"}


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "norm_first", "num_stacks", "final_norm"),
    [
        ("bert", False, 1, False),
        ("gpt2", True, 1, True),
        ("llama", True, 1, True),
        ("marian", False, 2, False),
        ("whisper", True, 2, True),
        ("vit", True, 1, True),
    ],
)
def test_hugging_face(name: str, norm_first: bool, num_stacks: int, final_norm: bool) -> None:
    model, given = hugging_face(name)
    found, notes = record(model, **given)
    assert not notes
    assert len(found.stacks) == num_stacks
    check(found.stacks[0], [ATTENTION, FEED_FORWARD], norm_first=norm_first)
    if num_stacks == 2:
        check(found.stacks[1], [ATTENTION, CROSS, FEED_FORWARD], norm_first=norm_first)
    for stack in found.stacks:
        assert (stack.norms[-1].sublayer is None) == final_norm
        assert (stack.output is stack.norms[-1].output) or not final_norm
    kinds = {name.kind for name in found.gradients if name.layer is not None}
    assert {"query", "key", "value", "output", "inner", "outer"} <= kinds <= {"gate", *kinds}
    plain = model.zero_grad() or model(**given).loss
    assert plain.item() == pytest.approx(found.loss, rel=0.2), "dropout aside"


@pytest.mark.peers
def test_padding_of_hugging_face_is_known() -> None:
    model, given = hugging_face("bert")
    mask = torch.ones_like(IDS)
    mask[1, 5:] = 0
    (stack,) = record(model, **given, attention_mask=mask)[0].stacks
    assert stack.real is not None
    assert torch.equal(stack.real, mask.bool())


@pytest.mark.peers
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_recording_a_foreign_library_changes_no_bit(name: str) -> None:
    model, given = hugging_face(name)

    def step(recorded: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        if recorded:
            with recording(model):
                loss = model(**given).loss
                loss.backward()
        else:
            loss = model(**given).loss
            loss.backward()
        return [loss.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]

    for plain, watched in zip(step(False), step(True), strict=True):
        assert torch.equal(plain, watched)
