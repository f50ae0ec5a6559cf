from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina import residual
from lamina.diagnosis.measures.contributions import contributions
from support.recorded import recorded, some_loss
from support.small_models import ready, small_stack


@pytest.mark.parametrize("scheme", residual.names())
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_contributions_add_up_to_the_stream(scheme: str, norm: str, float64: None) -> None:
    """In every scheme. The biases of norms belong to no contribution, so they are set to zero."""
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
