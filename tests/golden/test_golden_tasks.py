"""Losses of twenty steps of every task: float64, one thread, relative 1e-9. Data, batches, model and loss stay still.

Run this file as a program to write them anew after a deliberate change.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import Transformer
from lamina.data.order import OrderOptions
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.tasks import TASKS, build_task

STORED = Path(__file__).with_name("task_losses.json")
SMALL = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 2, "dropout": 0.0, "residual": "b2t"}
KINDS = {
    "translation": ("translation", {"word_dropout": 0.1}),
    "summarisation": ("headlines", {}),
    "language-modelling": ("text", {"block_length": 48}),
    "masked-language-modelling": ("text", {"block_length": 48}),
    "classification": ("entailments", {}),
}


def losses(name: str, folder: Path) -> list[float]:
    task = build_task(
        name, prepare(source_options("embedded-text", ".", str(folder / name), **sets(name))), options(name)
    )
    model = Transformer.build(task.model_options(SMALL))
    with torch.no_grad():  # weights that no random generator draws
        for at, (_, parameter) in enumerate(sorted(model.named_parameters())):
            if parameter.dim() == 2:
                waves = torch.sin(torch.arange(parameter.numel()) * (0.7 + 0.013 * at)).view_as(parameter)
                parameter.copy_(waves * (2 / sum(parameter.shape)) ** 0.5)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = task.batches("train", OrderOptions(max_tokens=300, oversize="alone"), seed=3).forever()
    found = []
    for _ in range(20):
        step = task.losses(model.train(), task.inputs(next(batches), seed=3))
        optimiser.zero_grad()
        (step.smoothed / step.count).backward()
        optimiser.step()
        found.append((step.nll / step.count).item())
    return found


def sets(name: str) -> dict[str, Any]:
    if name == "multilingual-translation":
        words: Any = {pair: [f"translation/{pair}:40"] for pair in ("marn-tuvo", "marn-noric")}
    else:
        words = [f"{KINDS[name][0]}:80"]
    return {"train": words, "valid": (), "test": (), "tokenizer": {"size": 400}}


def options(name: str) -> dict[str, Any]:
    return KINDS[name][1] if name in KINDS else {}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.usefixtures("float64")
def test_losses_are_the_stored_ones(name: str, tmp_path: Path) -> None:
    assert losses(name, tmp_path) == pytest.approx(json.loads(STORED.read_text())[name], rel=1e-9)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        STORED.write_text(json.dumps({name: losses(name, Path(folder)) for name in TASKS}, indent=1) + "\n")
