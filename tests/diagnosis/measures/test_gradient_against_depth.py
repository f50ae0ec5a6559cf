from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.gradient_against_depth import GradientAgainstDepth, last_gradient
from support.recorded import fact, feed_forward_stack, line, some_loss

X = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def run(model: nn.Module) -> Tensor:
    return some_loss(model(X))


def test_the_last_matrix_alone_is_differentiated() -> None:
    model = feed_forward_stack("post-ln", 3, 8)
    last = model.entries[-1].matrices[-1].weight
    expected = torch.autograd.grad(run(model), last)[0].norm().item()
    assert last_gradient(model, [run]) == pytest.approx(expected)
    assert all(parameter.grad is None for parameter in model.parameters())
    opposite = [run, lambda model: -run(model)]
    assert last_gradient(model, opposite) == 0.0, "the mean comes before the norm"


def test_the_power_and_the_prediction() -> None:
    def factory(seed: int, num_layers: int | None) -> nn.Module:
        torch.manual_seed(seed)
        return feed_forward_stack("pre-ln", num_layers or 1, 8)

    found = GradientAgainstDepth().against_depth(factory, [run], depths=(2, 4, 8), placement="pre")
    predicted = line(found, role="predicted", quantity="pre-LN")
    assert predicted[0] / predicted[2] == pytest.approx(2)  # (8 ÷ 2)^½
    assert fact(found, "largest/least") == pytest.approx(max(line(found)) / min(line(found)))
    assert found.find_facts("power")[0].spread is not None


def test_frozen_and_missing_matrices() -> None:
    model = feed_forward_stack("post-ln", 2, 8)
    model.requires_grad_(False)
    with pytest.raises(NotMeasurable, match="frozen"):
        last_gradient(model, [run])
