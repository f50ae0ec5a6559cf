"""Every task on a few examples of its embedded data, and small models for them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lamina.data.batches import OrderOptions
from lamina.data.packed import PackedField
from lamina.data.prepare import prepare
from lamina.data.sources import find_source, source_options
from lamina.data.store import Store
from lamina.model.options import ModelChoices
from lamina.model.transformer import Transformer
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Inputs, Task

SMALL = {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "num_layers": 2, "dropout": 0.0}


PAIRS = ("marn-tuvo", "marn-selu")  # two of the language pairs are enough


def small_sets(task: str, **counts: int) -> dict[str, Any]:
    """The sets of a task's embedded data, with so many examples for each split: `small_sets(task, train=80)`."""
    return {split: _resized(_embedded(task)[split], count) for split, count in counts.items()}


def small_store(task: str, folder: Path, vocabulary: int, **counts: int) -> Store:
    """A store of a task's embedded data with so many examples for each split; other splits are left out."""
    sets = {"valid": (), "test": (), **small_sets(task, **counts)}
    chosen = TASKS[task].embedded
    return prepare(source_options(chosen, ".", str(folder / task), **sets, tokenizer={"size": vocabulary}))


def small_options(task: str, block_length: int) -> dict[str, int]:
    """Task options that make a few examples several batches."""
    return {"block_length": block_length} if "block_length" in TASKS[task].Options.model_fields else {}


@cache
def store_of(name: str, folder: Path) -> Store:
    return small_store(name, folder, 600, train=200, valid=20)


def task_of(name: str, folder: Path, **options: Any) -> Any:
    return build_task(name, store_of(name, folder), small_options(name, 48) | options)


def model_for(task: Task, **changes: Any) -> Transformer:
    torch.manual_seed(1)
    return Transformer.build(task.model_options(ModelChoices.read(SMALL | changes, where="test")))


def _embedded(task: str) -> dict[str, Any]:
    return find_source(TASKS[task].embedded).options


def _resized(sets: Any, count: int) -> Any:
    """Of several language pairs the first has the most examples, so that temperature sampling has work to do."""
    if isinstance(sets, dict):
        return {name: _resized(sets[name], max(2, count // 4**rank)) for rank, name in enumerate(PAIRS)}
    return [re.sub(r":\d+$", f":{count}", each) for each in sets]


ORDER = OrderOptions(max_tokens=300)


SEVERAL = OrderOptions(max_tokens=1500)
"""Batches of several examples in every task, recordings of some 200 frames included."""


def first_inputs(task: Task, seed: int | None = None, order: OrderOptions = ORDER) -> Inputs:
    return task.inputs(task.batches("train", order).batch(0, 0), seed=seed)


def rows(ids: torch.Tensor, lengths: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in PackedField(ids.numpy(), lengths).sequences()]
