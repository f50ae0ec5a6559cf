"""Records the calls that lead from an entry to the place where the work is done.

`python -m support.recorded_calls train` prints a line for each function of Lamina on the way, such as
`runs/run.py: Run.train`. Comprehensions, torch's hooks and typer are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

import lamina
from lamina import cli

PACKAGE = Path(lamina.__file__).parent
CONFIG = """
[model]
num_layers = 2
model_dim = 16
feed_forward_dim = 32
num_heads = 2
[data]
store = "store"
max_tokens = 400
[train]
steps = 1
samples = 0
"""
SMALL_STORE = ["train=['translation:60']", "valid=['translation:9']", "test=['translation:9']", "tokenizer.size=400"]


class Recorded(Exception):
    """The place was reached: what would follow is not needed."""


def calls() -> list[str]:
    found, frame = [], sys._getframe(2)
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE) and "<" not in frame.f_code.co_qualname:
            found.append(f"{file.relative_to(PACKAGE)}: {frame.f_code.co_qualname}")
        frame = frame.f_back  # type: ignore[assignment]
    return found[::-1]


def record(module: str, owner: str, method: str) -> None:
    """Replace a method by one that prints the calls that lead to it."""
    kind = getattr(import_module(f"lamina.{module}"), owner)

    def stop(*arguments: Any, **options: Any) -> None:
        print("CALLS" + json.dumps([*calls(), f"{module.replace('.', '/')}.py: {owner}.{method}"]))
        raise Recorded

    setattr(kind, method, stop)


def command(*arguments: str) -> None:
    Path("own.toml").write_text(CONFIG)
    from lamina.data.prepare import prepare
    from lamina.data.sources import chosen_options

    prepare(chosen_options("embedded-translation", SMALL_STORE, {"output": "store"}))
    sys.argv = ["lamina", *arguments]
    cli.main()


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def watch() -> None:
    model = encoder()
    optimiser = torch.optim.Adam(model.parameters())
    with lamina.watch(model, optimiser, every=1):
        model(torch.randn(2, 5, 16)).sum().backward()
        optimiser.step()


WALKS: dict[str, tuple[tuple[str, str, str], Callable[[], Any]]] = {
    "train": (("training.loop", "Training", "backward"), lambda: command("train", "own.toml")),
    "compare": (
        ("studies.engines.local", "LocalEngine", "submit"),
        lambda: command("compare", "own.toml", "--residual", "b2t"),
    ),
    "diagnose a config": (
        ("diagnosis.measures.stream_norms", "StreamNorms", "take"),
        lambda: command("diagnose", "own.toml", "--seeds", "1", "--tokens", "60"),
    ),
    "diagnose a module": (
        ("diagnosis.measures.stream_norms", "StreamNorms", "take"),
        lambda: lamina.diagnose(encoder(), torch.randn(2, 5, 16)),
    ),
    "watch": (("diagnosis.watching.probes", "StepProbe", "finish"), watch),
}


if __name__ == "__main__":
    place, start = WALKS[sys.argv[1]]
    record(*place)
    with suppress(Recorded):
        start()
