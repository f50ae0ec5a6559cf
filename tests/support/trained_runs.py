"""Runs of a few steps on the embedded languages, for what uses a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.small_tasks import small_store


def trained_run(task: str, folder: Path, steps: int = 6, **task_options: Any) -> Path:
    """The folder of a finished run, made once."""
    path = folder / "runs" / task
    if path.exists():
        return path
    store = small_store(task, folder / "stores", 400, train=80, valid=8)
    values = {
        "task": task,
        "task_options": task_options,
        "data": {"store": str(store.folder), "max_tokens": 400, "oversize": "alone"},
        "model": {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1},
        "schedule": {"learning_rate": 1e-3, "warmup_steps": 3},
        "train": {"steps": steps, "validate_every": 0, "samples": 0},
    }
    Run(RunConfig.read(values, where="test"), path).train(quiet=True)
    return path


def sources(run: Run, number: int = 8) -> list[str]:
    """Texts of the validation data, in the first field of the run's task."""
    split, tokenizer = run.task.store["valid"], run.task.store.tokenizer(run.task.fields[0])
    return [tokenizer.decode(split.tokens(run.task.fields[0], at)) for at in range(number)]
