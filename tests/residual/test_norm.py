"""Norms by their formulas, and constants that stay exact in a half-precision module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.residual.norm import ExactFactor, NormOptions, is_half, normalise_in_own_precision, without_autocast


@pytest.mark.usefixtures("float64")
def test_norms_equal_their_formulas() -> None:
    x = torch.randn(3, 8)
    centred = x - x.mean(-1, keepdim=True)
    layer = NormOptions(eps=0.1).build(8, eps_factor=2)
    torch.testing.assert_close(layer(x), centred / (centred.square().mean(-1, keepdim=True) + 0.2).sqrt())
    rms = NormOptions(kind="rms", eps=0.1).build(8)
    torch.testing.assert_close(rms(x), x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (NormOptions(), {"weight", "bias"}),
        (NormOptions(bias=False), {"weight"}),
        (NormOptions(kind="rms"), {"weight"}),
    ],
)
def test_only_a_layer_norm_has_a_bias(options: NormOptions, names: set[str]) -> None:
    assert {name for name, _ in options.build(4).named_parameters()} == names


def test_a_half_precision_norm_computes_in_the_precision_of_its_input() -> None:
    norm, x = nn.LayerNorm(8).bfloat16(), torch.randn(3, 8)
    found = normalise_in_own_precision(norm, x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, nn.LayerNorm(8)(x))
    assert norm.weight.dtype == torch.bfloat16, "the norm itself is not changed"


class Scaled(ExactFactor):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.set_factor(factor)
        self.weight = nn.Parameter(torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_factor_stays_in_full_precision(dtype: torch.dtype) -> None:
    module = nn.Sequential(Scaled(0.1)).to(dtype)
    scaled = module[0]
    assert isinstance(scaled, Scaled)
    assert scaled.weight.dtype == dtype
    assert scaled.factor.dtype == torch.float32
    assert scaled.factor.item() == torch.tensor(0.1).item()
    assert scaled.double().factor.dtype == torch.float64


def test_half_precision() -> None:
    assert [is_half(torch.zeros(1, dtype=each)) for each in (torch.bfloat16, torch.float16)] == [True, True]
    assert [is_half(torch.zeros(1, dtype=each)) for each in (torch.float32, torch.float64)] == [False, False]


def test_autocast_is_off_inside() -> None:
    x, weight = torch.randn(2, 2), torch.randn(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ weight).dtype == torch.bfloat16
        with without_autocast(x):
            assert (x @ weight).dtype == torch.float32
    with without_autocast(x.to("meta")):
        pass  # has no autocast to turn off
