"""The average of several checkpoints' weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lamina.errors import UserError
from lamina.training.checkpoint.snapshot import Tensors
from lamina.training.checkpoint.storage import load_model


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each weight, summed in double precision; integers and flags are those of the last checkpoint."""
    if not paths:
        raise UserError("there are no checkpoints to average")
    last = load_model(paths[-1])
    sums = {name: value.to(torch.float64, copy=True) for name, value in last.items() if value.is_floating_point()}
    for path in paths[:-1]:
        model = load_model(path)
        if _shapes(model) != _shapes(last):
            raise UserError(f"{path}: cannot be averaged with {paths[-1]}, which is of another model")
        for name, total in sums.items():
            total += model[name]
    means = {name: (total / len(paths)).to(last[name].dtype) for name, total in sums.items()}
    return {name: means[name] if name in means else value.clone() for name, value in last.items()}


def _shapes(model: Tensors) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (value.shape, value.dtype) for name, value in model.items()}
