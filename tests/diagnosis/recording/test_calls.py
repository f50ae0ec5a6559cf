"""The calls of functions inside modules."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.diagnosis.recording.calls import CallRecorder, Calls


class Small(nn.Module):
    """One layer with attention, an activation, dropout, an embedding and a loss."""

    def __init__(self, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(10, 4, padding_idx=3), nn.Linear(4, 4)
        self.activation = activation

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.dropout(self.table(tokens), 0.3)
        heads = x.unsqueeze(1)
        x = x + F.scaled_dot_product_attention(heads, heads, heads).squeeze(1)
        inner = self.inner(x)
        x = x + (F.relu(inner) if self.activation is None else self.activation(inner))
        return F.cross_entropy(x.flatten(0, 1), tokens.flatten() % 4)


def calls_of(model: Small) -> Calls:
    with CallRecorder(model, {"stack": [[model.inner], [model]]}) as recorder:
        model(torch.arange(6).view(2, 3)).backward()
    return recorder.calls


@pytest.mark.parametrize("activation", [None, nn.ReLU(), nn.ReLU(inplace=True), nn.GELU()])
def test_every_call_belongs_to_its_module(activation: nn.Module | None) -> None:
    model = Small(activation)
    with torch.no_grad():
        model.inner.bias[1] = -50.0
    found = calls_of(model)
    assert [each.location.layer for each in found.attention] == [2]
    assert found.attention[0].largest.shape == (1,)
    (active,) = found.activations
    assert active.location.module == "inner"
    assert active.dead.tolist()[1] is True
    assert active.positions == 6
    assert list(found.dropouts.values()) == [0.3]
    assert [(each.rows, each.padding) for each in found.tokens] == [(10, 3)]
    assert [each.classes for each in found.losses] == [4]
    assert not model._forward_hooks


def test_values_are_not_changed() -> None:
    torch.manual_seed(0)
    model = Small()
    torch.manual_seed(1)
    plain = model(torch.arange(6).view(2, 3))
    torch.manual_seed(1)
    with CallRecorder(model, {}):
        recorded = model(torch.arange(6).view(2, 3))
    assert torch.equal(plain, recorded)
