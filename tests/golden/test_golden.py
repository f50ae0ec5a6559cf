"""Losses that a refactor must leave as they are: float64, one thread, relative 1e-9.

Run this file as a program to write them anew after a deliberate change of the mathematics.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import lamina
from lamina import residual

STORED = Path(__file__).with_name("losses.json")
SMALL = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40, "dropout": 0.0}


def losses(name: str) -> list[float]:
    """Five steps of Adam on five batches of made-up numbers, from weights that no random generator draws."""
    model = lamina.Transformer.from_preset("iwslt", residual=name, num_layers=(2, 3), **SMALL)
    with torch.no_grad():
        for at, (_, parameter) in enumerate(sorted(model.named_parameters())):
            if parameter.dim() == 2:
                waves = torch.sin(torch.arange(parameter.numel()) * (0.7 + 0.013 * at)).view_as(parameter)
                parameter.copy_(waves * (2 / sum(parameter.shape)) ** 0.5)
    batches = [(torch.arange(60).view(3, 4, 5) * (7 + at)) % 37 + 3 for at in range(5)]
    model.calibrate(batches[0][0], batches[0][1])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    found = []
    for source, target, labels in batches:
        loss = model(source, target, labels=labels, smoothing=0.1).smoothed.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", residual.names())
@pytest.mark.usefixtures("float64")
def test_losses_are_the_stored_ones(name: str) -> None:
    stored = json.loads(STORED.read_text())
    if name not in stored:
        pytest.skip("a new scheme: run this file to store its losses")
    assert losses(name) == pytest.approx(stored[name], rel=1e-9)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    STORED.write_text(json.dumps({name: losses(name) for name in residual.names()}, indent=1) + "\n")
