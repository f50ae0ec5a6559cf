"""Models of other libraries that are imported, and comparisons of their scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lamina.interop.imports.import_run import import_run
from lamina.runs.run import Run
from support.library_models import library_model_of


def save_library_model(name: str, folder: Path, **changes: Any) -> Any:
    """A random model of transformers, saved in a folder."""
    model = library_model_of(name, **changes)
    model.save_pretrained(folder)
    return model


def imported(source: Path, **options: Any) -> Run:
    """The run of a model, beside it."""
    return import_run(source, source.with_name(f"{source.name}-run"), **options).run


def own_ids(run: Run, ids: Tensor, field: str | None = None) -> Tensor:
    """Lamina's ids of foreign ones, where text is the foreign ids themselves."""
    tokenizer = run.task.store.tokenizer(field)
    return torch.tensor([tokenizer.encode(" ".join(map(str, row))) for row in ids.tolist()])


def change_tensors(folder: Path, change: Any) -> None:
    """Rewrite the tensors of a model folder after `change` has edited them."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def change_config(folder: Path, **values: Any) -> None:
    """Rewrite config.json with other values."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
