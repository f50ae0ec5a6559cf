"""The measure `coordinate-check`."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.coordinate_check import CoordinateCheck
from support.recorded import feed_forward_stack, line, some_loss

X = torch.linspace(-1, 1, 32).view(1, 4, 8)


def factory(seed: int, num_layers: int | None) -> nn.Module:
    torch.manual_seed(seed)
    return feed_forward_stack("post-ln", num_layers or 1, 8)


def run(model: nn.Module) -> Tensor:
    return some_loss(model(X))


def test_the_hidden_state_after_every_step_by_a_plain_loop() -> None:
    found = CoordinateCheck().take(Evidence(factory=factory, passes=[run], depths=(1, 2), learning_rate=0.05))
    for at, depth in enumerate((1, 2)):
        model = copy.deepcopy(factory(1, depth))
        optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
        for step in range(4):
            size = model(X).abs().mean().item()
            assert line(found, quantity=f"after {step} steps")[at] == pytest.approx(size, rel=1e-4)
            optimiser.zero_grad()
            run(model).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    assert len(found.facts) == 4


def test_it_needs_two_depths() -> None:
    with pytest.raises(NotMeasurable, match="two depths"):
        CoordinateCheck().take(Evidence(factory=factory, passes=[run], depths=(2, 200)))
