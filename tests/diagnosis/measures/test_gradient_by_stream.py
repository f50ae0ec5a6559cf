from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina import residual
from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.gradient_by_stream import GradientByStream, split
from lamina.model.stack import Stack
from support.recorded import some_loss
from support.small_models import small_stack

STREAMS = [scheme.name for scheme in residual.schemes() if len(scheme.streams) > 1]


def with_roles(scheme: str, **options: Any) -> Stack:
    return small_stack(scheme, 2, per_layer=1, roles={"*.inner": "inner", "*.outer": "outer"}, **options)


def measured(stack: Stack, x: Tensor) -> Measurement:
    return GradientByStream().take(Evidence(model=stack, passes=[lambda model: some_loss(model(x))]))


@pytest.mark.parametrize("scheme", STREAMS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_parts_add_up(scheme: str, dropout: float, float64: None) -> None:
    x = torch.randn(9, 6)
    stack = with_roles(scheme, dropout=dropout)
    stack.calibrate(x)

    def run(model: nn.Module) -> Tensor:
        return some_loss(model(x))

    state = torch.get_rng_state()
    whole = torch.autograd.grad(run(stack), [matrix.weight for part in stack.entries for matrix in part.matrices])
    torch.set_rng_state(state)
    parts = [split(stack, run, stack, number) for number in range(len(stack.residual.streams))]
    for number, gradient in enumerate(whole):
        found = sum(part[number // 2][number % 2] for part in parts)
        assert torch.allclose(found, gradient, rtol=1e-9, atol=1e-12)


def test_the_model_is_left_as_it_was(float64: None) -> None:
    stack, x = with_roles("resi-dual"), torch.randn(9, 6)
    before = stack(x)
    found = measured(stack, x)
    assert torch.equal(stack(x), before)
    assert [(each.quantity, each.location.stream) for each in found.measured] == [
        ("total", None),
        ("through", "x"),
        ("through", "dual"),
    ]
    assert all(each.weight.grad is None for part in stack.entries for each in part.matrices)


def test_frozen_matrices_are_left_out() -> None:
    stack, x = with_roles("resi-dual"), torch.randn(9, 6)
    stack.layers[0].sublayers[0].inner.weight.requires_grad_(False)
    assert [each.x for each in measured(stack, x).measured] == [(1, 2)] * 3
    stack.layers[0].sublayers[0].outer.weight.requires_grad_(False)
    assert [each.x for each in measured(stack, x).measured] == [(2,)] * 3
    stack.layers[1].requires_grad_(False)
    with pytest.raises(NotMeasurable, match="known and trained matrices"):
        measured(stack, x)


@pytest.mark.parametrize("scheme", ["post-ln", "b2t"])
def test_one_stream_cannot_be_split(scheme: str) -> None:
    with pytest.raises(NotMeasurable, match="more than one stream"):
        measured(with_roles(scheme), torch.randn(9, 6))
