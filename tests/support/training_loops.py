"""Plain training loops of a small model, around which tests put a watch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from lamina.model.models import EncoderDecoder
from support.small_models import LABELS, SOURCE, TARGET


class ForeignModel(nn.Module):
    """A model of another library: layers in a list, query, key and value in one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 3, enable_nested_tensor=False
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


def adam(model: nn.Module, learning_rate: float = 1e-3, **options: Any) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), **options)


def loop(model: EncoderDecoder, optimiser: torch.optim.Optimizer, accumulate: int = 1) -> Iterator[Tensor]:
    """Yields before every step of the optimiser, so that a test can change the gradients."""
    while True:
        for _ in range(accumulate):
            loss = model(SOURCE, TARGET, labels=LABELS).smoothed.mean()
            loss.backward()
        yield loss.detach()
        optimiser.step()
        optimiser.zero_grad()


def take(steps: Iterator[Any], count: int) -> None:
    """Take `count` whole steps: the last one is done when the next begins."""
    for _ in range(count + 1):
        next(steps)
