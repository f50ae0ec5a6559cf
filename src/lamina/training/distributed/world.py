"""The processes of a run: one, or as many as torchrun started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from lamina.errors import UserError


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the run folder."""
        return self.rank == 0

    def total(self, value: float) -> float:
        """The sum over all processes. This and the methods below must be called by all processes at the same point."""
        return self._reduced(value, dist.ReduceOp.SUM)

    def largest(self, value: float) -> float:
        """The largest over all processes."""
        return self._reduced(value, dist.ReduceOp.MAX)

    def from_first(self, value: float) -> float:
        """The value of the first process, for decisions that must not differ by a rounding error."""
        return self.total(value if self.is_first else 0.0)

    def gather(self, text: str) -> list[str]:
        """The texts of all processes."""
        texts: list[Any] = [text] * self.size
        if self.size > 1:
            dist.all_gather_object(texts, text)
        return texts

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def _reduced(self, value: float, by: Any) -> float:
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, by)
        return tensor.item()


ALONE = World(0, 1, torch.device("cpu"))


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Join the processes that torchrun started, if it did, and leave the group at the end."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = _choose_device(device)
    if size == 1:
        yield World(0, 1, chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(rank, size, chosen)
    finally:
        dist.destroy_process_group()


def _choose_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"train.device: {name!r} is not a device; use auto, cpu or cuda") from None
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise UserError("train.device is cuda, but torch sees no GPU; use auto or cpu")
    if ":" not in name:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    return device
