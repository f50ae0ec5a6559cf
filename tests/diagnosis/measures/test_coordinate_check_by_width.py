"""The measure `coordinate-check-by-width`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.base import POWER, Evidence, NotMeasurable
from lamina.diagnosis.measures.coordinate_check_by_width import CoordinateCheckByWidth
from support.recorded import feed_forward_stack, line, some_loss

X = torch.linspace(-1, 1, 16).view(1, 4, 4)


class Wide(nn.Module):
    """Reads the same input at any width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.read, self.stack = nn.Linear(4, width), feed_forward_stack("post-ln", 2, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(self.read(x))


def run(model: nn.Module) -> Tensor:
    return some_loss(model(X))


def test_the_hidden_state_after_every_step_by_a_plain_loop() -> None:
    found = CoordinateCheckByWidth().take(Evidence(of_width=Wide, widths=(16, 8), passes=[run], learning_rate=0.05))
    for at, width in enumerate((8, 16)):
        model = Wide(width)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
        for step in range(4):
            size = model(X).abs().mean().item()
            assert line(found, quantity=f"after {step} steps")[at] == pytest.approx(size, rel=1e-4)
            optimiser.zero_grad()
            run(model).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    assert len(found.find_facts(POWER)) == 4


def test_it_needs_two_widths() -> None:
    with pytest.raises(NotMeasurable, match="two widths"):
        CoordinateCheckByWidth().take(Evidence(of_width=Wide, widths=(8,), passes=[run]))
