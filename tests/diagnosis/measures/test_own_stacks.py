"""Measures through the recording of Lamina's own stacks, for every scheme."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina import residual
from lamina.diagnosis.measures import added_block, gradient_by_layer, gradient_by_stream, take_all
from lamina.diagnosis.measures.contributions import contributions
from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.results import Measure
from lamina.model.stack import Stack
from support.recorded import line, mean_of, recorded, some_loss
from support.small_models import LABELS, SOURCE, TARGET, ready, small_model, small_stack

SCHEMES = [scheme.name for scheme in residual.schemes()]
STREAMS = [scheme.name for scheme in residual.schemes() if len(scheme.streams) > 1]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_contributions_add_up_to_the_stream(scheme: str, norm: str, float64: None) -> None:
    """Whatever the scheme; only the biases of norms belong to nobody, so they are put to zero."""
    x = torch.randn(9, 6)
    stack = ready(small_stack(scheme, 3, norm=norm), x)
    for module in stack.modules():
        if isinstance(module, nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
    record = recorded(stack, lambda model: some_loss(model(x)))
    found = list(contributions(record.stacks[0]))
    assert [len(parts) for parts, _ in found] == [2, 3, 4, 5, 6, 7]
    for parts, whole in found:
        assert torch.allclose(parts.sum(0), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_can_be_taken(scheme: str) -> None:
    model = small_model(scheme)

    def run(model: nn.Module) -> Tensor:
        return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()

    measures, skipped = take_all([recorded(model, run), recorded(model, run)])
    combined = mean_of([measures, measures])
    assert [each.key for each in combined] == [each.key for each in measures]
    expected = {"none": {"gradient-at-norms", "norm-jacobian"}}.get(model.encoder.residual.placement, set())
    assert {each.key for each in skipped} == expected
    for each in combined:
        assert all(spread == pytest.approx(0, abs=1e-6) for line in each.measured for spread in line.spread)
        assert {one.label.split()[0].rstrip(",") for one in each.measured + each.grids} == {"encoder", "decoder"}


@pytest.mark.parametrize("scheme", ["post-ln", "pre-ln", "resi-dual", "b2t-over-all"])
def test_an_added_block_is_a_longer_stack(scheme: str, float64: None) -> None:
    """The outputs of stacks cut off are those of shorter stacks with the same weights."""
    x = torch.randn(9, 6)
    deep = small_stack(scheme, 3, per_layer=1)
    shallow = small_stack(scheme, 2, per_layer=1)
    shallow.load_state_dict(deep.state_dict(), strict=False)
    measure = added_block.take([recorded(deep, lambda model: some_loss(model(x)))])
    change = (deep(x) - shallow(x)).abs().mean().item()
    assert line(measure.measured, "stack")[-1] == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize("scheme", STREAMS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_by_stream_add_up(scheme: str, dropout: float, float64: None) -> None:
    x = torch.randn(9, 6)
    stack = _with_roles(scheme, dropout=dropout)
    stack.calibrate(x)

    def run(model: nn.Module) -> Tensor:
        return some_loss(model(x))

    state = torch.get_rng_state()
    whole = torch.autograd.grad(run(stack), [matrix.weight for entry in stack.entries for matrix in entry.matrices])
    torch.set_rng_state(state)
    parts = [gradient_by_stream.split(stack, run, stack, number) for number in range(len(stack.residual.streams))]
    for number, gradient in enumerate(whole):
        found = sum(part[number // 2][number % 2] for part in parts)
        assert torch.allclose(found, gradient, rtol=1e-9, atol=1e-12)


def test_gradient_by_stream_leaves_the_model_as_it_was(float64: None) -> None:
    stack, x = _with_roles("resi-dual"), torch.randn(9, 6)
    before = stack(x)
    measure = gradient_by_stream.take(stack, lambda model: some_loss(model(x)))
    assert torch.equal(stack(x), before)
    assert [each.label for each in measure.measured] == ["stack", "stack through x", "stack through dual"]
    assert all(each.weight.grad is None for entry in stack.entries for each in entry.matrices)


def test_frozen_matrices_are_left_out_of_the_split() -> None:
    stack, x = _with_roles("resi-dual"), torch.randn(9, 6)

    def take() -> Measure:
        return gradient_by_stream.take(stack, lambda model: some_loss(model(x)))

    stack.layers[0].sublayers[0].inner.weight.requires_grad_(False)
    assert [each.x for each in take().measured] == [(1, 2)] * 3
    stack.layers[0].sublayers[0].outer.weight.requires_grad_(False)
    assert [each.x for each in take().measured] == [(2,)] * 3
    stack.layers[1].requires_grad_(False)
    with pytest.raises(NotMeasurable, match="known and trained matrices"):
        take()


def test_one_stream_cannot_be_split() -> None:
    for scheme in ("post-ln", "b2t"):
        with pytest.raises(NotMeasurable, match="more than one stream"):
            gradient_by_stream.take(_with_roles(scheme), lambda model: some_loss(model(torch.randn(9, 6))))


def test_gradient_by_layer_agrees_with_the_parameters() -> None:
    model = small_model("post-ln", 3)

    def run(model: nn.Module) -> Tensor:
        return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()

    measure = gradient_by_layer.take([recorded(model, run)])
    run(model).backward()
    direct = [entry.matrices[-1].weight.grad.norm().item() for entry in model.decoder.entries if entry.place.last]
    assert line(measure.measured, "decoder outer") == pytest.approx(tuple(direct), rel=1e-5)
    theory = line(measure.theory, "decoder outer, post-LN in theory")
    assert theory[0] == pytest.approx(direct[-1] * 2 / 3)
    assert _kinds(find_layers(model).matrices) >= {"query", "key", "value", "output", "inner", "outer"}


def _with_roles(scheme: str, **options: Any) -> Stack:
    return small_stack(scheme, 2, per_layer=1, roles={"*.inner": "inner", "*.outer": "outer"}, **options)


def _kinds(matrices: list[NamedMatrix]) -> set[str]:
    return {each.name.kind for each in matrices if each.name.layer is not None}
