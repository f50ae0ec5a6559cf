"""ResiDual's dual stream: the output does not depend on its scale, but on its precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lamina.model.stack import Stack
from support.small_models import small_stack


def output(scale: float, x: Tensor, norm: str = "layer") -> Tensor:
    torch.manual_seed(1)
    return small_stack("resi-dual", 4, dual_scale=scale, norm=norm)(x)


@given(st.floats(1e-4, 1e4), st.sampled_from(["layer", "rms"]))
def test_the_output_does_not_depend_on_the_scale(scale: float, norm: str) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(output(scale, x, norm), output(1.0, x, norm), atol=1e-12, rtol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("power", [-6, -1, 3])
def test_bit_for_bit_when_the_scale_is_a_power_of_two(power: int) -> None:
    x = torch.randn(5, 6)
    assert torch.equal(output(2.0**power, x), output(1.0, x))


class Loud(nn.Module):
    """A branch whose values are near the largest number of half precision."""

    def forward(self, x: Tensor) -> Tensor:
        return 3.0e4 * torch.sign(x).half()


def loud_stack(**options: object) -> Stack:
    return Stack([[Loud(), Loud()] for _ in range(4)], model_dim=6, residual="resi-dual", **options)


def dual_of(stack: Stack, x: Tensor) -> Tensor:
    state = stack.residual.open(x)
    for layer in stack.layers:
        state = layer(state, {})
    return state[1]


@pytest.mark.parametrize("whole_model_in_half", [False, True])
def test_a_deep_sum_overflows_in_half_precision_and_both_remedies_work(whole_model_in_half: bool) -> None:
    x = torch.randn(4, 6)
    with torch.autocast("cpu", torch.float16, enabled=not whole_model_in_half):

        def run(**options: object) -> tuple[Tensor, Tensor]:
            stack = loud_stack(**options)
            if whole_model_in_half:
                stack = stack.half()
            given = x.half() if whole_model_in_half else x
            return dual_of(stack, given), stack(given)

        overflowing, _ = run(dual_precision="stream")
        assert overflowing.dtype == torch.float16
        assert overflowing.isinf().any()

        scaled, scaled_output = run(dual_precision="stream", dual_scale=1 / 16)
        assert scaled.dtype == torch.float16
        assert scaled.isfinite().all()
        assert scaled_output.isfinite().all()

        kept, kept_output = run()
        assert kept.dtype == torch.float32
        assert kept.abs().max() > torch.finfo(torch.float16).max
        assert kept_output.isfinite().all()
        torch.testing.assert_close(kept_output.float(), scaled_output.float(), atol=1e-2, rtol=1e-2)
