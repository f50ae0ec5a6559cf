"""Recording Lamina's stacks: everything is recorded, and recording changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina import residual
from lamina.diagnosis.recording.own import recording
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.recording.records import Record, RecordedTensor, StackRecord
from lamina.model.stack import Stack
from lamina.model.transformer import Transformer
from support.small_models import LABELS, SOURCE, TARGET, Mixer, small_model, small_stack


def loss_of(model: nn.Module) -> Tensor:
    return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()


def record(model: nn.Module) -> Record:
    return record_pass(model, loss_of)[0]


@pytest.mark.parametrize("checkpoint_layers", [False, True])
@pytest.mark.parametrize("scheme", residual.names())
def test_recording_changes_no_bit(scheme: str, checkpoint_layers: bool) -> None:
    model = small_model(scheme, dropout=0.1, attention_dropout=0.1, checkpoint_layers=checkpoint_layers)

    def step(recorded: bool) -> tuple[Tensor, list[Tensor], Tensor]:
        torch.manual_seed(7)
        model.zero_grad()
        if recorded:
            with recording(model):
                loss = loss_of(model)
                loss.backward()
        else:
            loss = loss_of(model)
            loss.backward()
        return loss.detach(), [each.grad.clone() for each in model.parameters() if each.grad is not None], torch.rand(3)

    plain, watched, after = step(False), step(True), step(False)
    for other in (watched, after):
        assert torch.equal(plain[0], other[0])
        assert len(plain[1]) == len(other[1])
        assert all(torch.equal(one, two) for one, two in zip(plain[1], other[1], strict=True))
        assert torch.equal(plain[2], other[2]), "the random numbers that follow are the same too"


@pytest.mark.parametrize("scheme", residual.names())
def test_every_sublayer_every_stream_and_every_norm_is_recorded(scheme: str) -> None:
    model = small_model(scheme, num_layers=(2, 3))
    encoder, decoder = record(model).stacks
    assert (encoder.name, decoder.name) == ("encoder", "decoder")
    assert [each.place.kind for each in encoder.sublayers] == ["self-attention", "feed-forward"] * 2
    assert [each.place.index for each in decoder.sublayers] == list(range(9))
    for stack in (encoder, decoder):
        assert stack.own is not None
        assert stack.num_layers == stack.own.shape.num_layers
        assert stack.streams == stack.own.residual.streams
        check_continuity(stack)
        placed = {id(each) for each in stack.own.modules() if isinstance(each, nn.LayerNorm)}
        seen = [norm for norm in stack.norms if id(norm.module) in placed]
        assert {id(norm.module) for norm in seen} == placed
        for norm in seen:
            assert model.get_submodule(norm.path) is norm.module
            assert torch.allclose(norm.module(norm.input.value), norm.output.value)


def check_continuity(stack: StackRecord) -> None:
    """Check that the stream after a sub-layer is that before the next, and that every write can be repeated."""
    assert stack.own is not None
    sites = [site for layer in stack.own.layers for site in layer.sites]
    for one, two in zip(stack.sublayers, stack.sublayers[1:], strict=False):
        assert all(left is found for left, found in zip(one.after, two.before, strict=True))
    with torch.no_grad():
        for site, sublayer in zip(sites, stack.sublayers, strict=True):
            before, after = values(sublayer.before), values(sublayer.after)
            assert sublayer.branch is not None
            assert torch.allclose(site.read(before), sublayer.read.value, atol=1e-6)
            written = site.write(before, sublayer.branch.value)
            for again, seen in zip(parts(written), parts(after), strict=True):
                assert torch.allclose(again, seen, atol=1e-6)
        assert torch.allclose(
            stack.own.residual.close(values(stack.sublayers[-1].after)), stack.output.value, atol=1e-6
        )


def values(state: tuple[RecordedTensor, ...]) -> Any:
    return state[0].value if len(state) == 1 else tuple(each.value for each in state)


def parts(state: Any) -> tuple[Tensor, ...]:
    return (state,) if isinstance(state, Tensor) else state


def test_gradient_norms_are_autograd_s() -> None:
    """Against autograd itself, with the parts of the state kept by hand."""
    stack = small_stack("resi-dual", num_layers=3)
    x = torch.randn(5, 6, requires_grad=True)
    kept: list[tuple[Tensor, ...]] = []

    def keep(layer: nn.Module, arguments: Any, state: tuple[Tensor, ...]) -> None:
        for part in state:
            part.retain_grad()
        kept.append(state)

    handles = [layer.register_forward_hook(keep) for layer in stack.layers]
    stack(x).square().sum().backward()
    for handle in handles:
        handle.remove()
    with recording(stack) as recorded:
        stack(x).square().sum().backward()
    (found,) = recorded.stacks
    assert found.input.gradient_norm == pytest.approx(x.grad.norm().item() / 2, rel=1e-5)  # twice into one .grad
    ends = [sublayer.after for sublayer in found.sublayers if sublayer.place.last]
    for seen, state in zip(ends, kept, strict=True):
        assert [part.gradient_norm for part in seen] == [pytest.approx(part.grad.norm().item()) for part in state]


def test_a_growing_state_has_a_gradient_at_every_part() -> None:
    record_ = record(small_model("dlcl", num_layers=3))
    last = record_.stacks[0].sublayers[-1]
    assert len(last.before) == 4
    assert len(last.after) == 5
    assert all(part.gradient_norm is not None for part in last.before)


def test_only_the_first_pass_is_recorded() -> None:
    stack = small_stack("post-ln", num_layers=2)
    first = torch.randn(3, 6)
    with recording(stack) as recorded:
        (stack(first).sum() + stack(torch.randn(3, 6)).sum()).backward()
    (found,) = recorded.stacks
    assert len(found.sublayers) == 4
    assert torch.equal(found.input.value, first)


def test_without_a_backward_pass_there_is_no_gradient() -> None:
    stack = small_stack("b2t", num_layers=2)
    with torch.no_grad(), recording(stack) as recorded:
        stack(torch.randn(3, 6))
    assert recorded.stacks[0].sublayers[0].after[0].gradient_norm is None


def test_no_hook_stays_behind() -> None:
    model = small_model("pre-ln")
    record(model)
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_values_are_not_copied() -> None:
    stack = small_stack("pre-ln", num_layers=2)
    x = torch.randn(3, 6)
    with recording(stack) as recorded:
        stack(x).sum().backward()
    assert recorded.stacks[0].input.value.data_ptr() == x.data_ptr()


def test_a_shared_sublayer_and_a_mask_of_real_positions() -> None:
    class Masked(Mixer):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(x)

    shared = Masked(6)
    stack = Stack([[shared], [shared]], model_dim=6, residual="post-ln")
    mask = torch.tensor([[True, True, False]])
    with recording(stack) as recorded:
        stack(torch.randn(1, 3, 6), mask=mask).sum().backward()
    (found,) = recorded.stacks
    assert found.name == "stack"
    assert found.real is mask
    assert not torch.equal(found.sublayers[0].read.value, found.sublayers[1].read.value)


def test_memory_is_within_twice_that_of_a_training_step() -> None:
    """The bytes of distinct storages that a record keeps, compared with those that autograd keeps."""
    model = Transformer.from_preset(
        "iwslt", num_layers=2, model_dim=64, feed_forward_dim=128, num_heads=2, vocab_size=100, residual="resi-dual"
    )
    ids = torch.randint(3, 100, (4, 32))
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with recording(model) as recorded:
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss = model(ids, ids, labels=ids).smoothed.mean()
        loss.backward()
    kept_too = [
        each
        for stack in recorded.stacks
        for sublayer in stack.sublayers
        for each in (sublayer.read, sublayer.branch, *sublayer.before, *sublayer.after)
        if each is not None
    ]
    kept_too += [each for stack in recorded.stacks for norm in stack.norms for each in (norm.input, norm.output)]
    seen = {each.value.untyped_storage().data_ptr(): each.value.untyped_storage().nbytes() for each in kept_too}
    assert len(seen) > 20
    assert sum(seen[key] for key in seen.keys() - kept.keys()) <= sum(kept.values())
