"""Temporary modes of a model: evaluation mode, and the calibration pass of residual schemes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from lamina.errors import UserError
from lamina.residual.norm import without_autocast


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextmanager
def profiling(module: nn.Module, x: Tensor) -> Iterator[None]:
    """Modes of all modules and the random state are put back, whatever happens inside."""
    refuse_sharded(module, "calibrated")
    modes = {each: each.training for each in module.modules()}
    devices = [x.device] if x.is_cuda else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=devices), without_autocast(x):
            module.train()
            yield
    finally:
        for each, mode in modes.items():
            each.training = mode


def refuse_sharded(module: nn.Module, what: str) -> None:
    if any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        raise UserError(f"a sharded model cannot be {what}: do it first, and shard it then")
