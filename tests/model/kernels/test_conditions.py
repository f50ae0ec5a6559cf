"""Where a function may replace single operations: in training, unless something observes or transforms these."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad
from torch.overrides import BaseTorchFunctionMode

from lamina.model.kernels.conditions import may_fuse


def test_in_training_only() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert may_fuse(x)
    assert may_fuse(x.double())
    assert not may_fuse(x.detach())
    with torch.no_grad():
        assert not may_fuse(x)


def test_not_in_half_precision_nor_without_values() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert not may_fuse(x.bfloat16())
    assert not may_fuse(x.to("meta"))


def test_not_where_operations_are_observed() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with BaseTorchFunctionMode():
        assert not may_fuse(x)
    seen = []

    def observed(y: torch.Tensor) -> torch.Tensor:
        seen.append(may_fuse(y))
        return y.sum()

    torch.func.grad(observed)(x)
    with forward_ad.dual_level():
        observed(forward_ad.make_dual(x, torch.ones_like(x)))
    assert seen == [False, False]
