"""Every task on a little of the embedded languages, and small models for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.base import Task

SMALL = {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "num_layers": 2, "dropout": 0.0}
SETS = {
    "translation": {"train": ["translation:300"], "valid": ["translation:30"]},
    "multilingual-translation": {
        split: {pair: [f"translation/{pair}:{count}"] for pair, count in pairs.items()}
        for split, pairs in {
            "train": {"marn-tuvo": 200, "marn-selu": 50},
            "valid": {"marn-tuvo": 12, "marn-selu": 9},
        }.items()
    },
    "summarisation": {"train": ["headlines:200"], "valid": ["headlines:20"]},
    "language-modelling": {"train": ["text:60"], "valid": ["text:12"]},
    "masked-language-modelling": {"train": ["text:60"], "valid": ["text:12"]},
    "classification": {"train": ["paraphrases:200"], "valid": ["paraphrases:40"]},
}


@cache
def store_of(name: str, folder: Path) -> Store:
    chosen = {"format": "embedded", "tokenizer": {"size": 600}, "test": (), **SETS[name]}
    return prepare(source_options("embedded-text", ".", str(folder / name), **chosen))


def task_of(name: str, folder: Path, **options: Any) -> Any:
    if name == "language-modelling":
        options = {"block_length": 64} | options
    if name == "masked-language-modelling":
        options = {"block_length": 40} | options
    return build_task(name, store_of(name, folder), options)


def model_for(task: Task, **changes: Any) -> Transformer:
    torch.manual_seed(1)
    return Transformer.build(task.model_options(SMALL | changes))
