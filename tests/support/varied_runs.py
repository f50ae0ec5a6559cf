"""Loaded runs whose weights are changed at random, so that their outputs differ from text to text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.small_tasks import small_store

UNTIED = {"shared_embeddings": "none"}
"""With one table for input and output, a model of random weights repeats its last token."""
TRAINED: dict[tuple[Any, ...], Path] = {}


def varied_run(task: str, folder: Path, task_options: dict[str, Any] | None = None, **model: Any) -> Run:
    """A run of one step with these options of the model; made once in `folder`, loaded anew at each call."""
    key = (task, folder, repr(task_options), repr(model))
    if key not in TRAINED:
        store = small_store(task, folder / "stores", 400, train=80, valid=8)
        path = folder / "varied" / f"{task}-{len(TRAINED)}"
        values = {
            "task": task,
            "task_options": task_options or {},
            "data": {"store": str(store.folder), "max_tokens": 400, "oversize": "alone"},
            "model": {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 2, **UNTIED, **model},
            "schedule": {"learning_rate": 1e-3, "warmup_steps": 3},
            "train": {"steps": 1, "validate_every": 0, "samples": 0, "device": "cpu"},
        }
        Run(RunConfig.read(values, where="test"), path).train(quiet=True)
        TRAINED[key] = path
    run = Run(TRAINED[key]).load()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return run


def texts_of(run: Run, number: int = 6) -> list[str]:
    """Texts of the validation data, in the first field of the run's task."""
    field = run.task.required_fields()[0]
    split, tokenizer = run.task.store["valid"], run.task.store.tokenizer(field)
    return [tokenizer.decode(split.tokens(field, at)) for at in range(number)]
