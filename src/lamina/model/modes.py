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
    """Put the model into evaluation mode, without dropout, and every module back into its own mode afterwards."""
    modes = {each: each.training for each in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.training = mode


@contextmanager
def profiling(module: nn.Module, x: Tensor) -> Iterator[None]:
    """A pass in training mode, in full precision and without gradient.

    The modes of all modules and the random state are restored afterwards, also after an error.
    """
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
    """Raise if parameters are sharded over processes."""
    if any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        raise UserError(f"a sharded model cannot be {what}; do it before sharding")
