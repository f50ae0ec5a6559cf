"""The processes of a run: one, or as many as torchrun started."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from lamina.errors import FailedElsewhere, UserError

Value = TypeVar("Value")


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

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, in the order of their ranks."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def on_first(self, work: Callable[[], Value]) -> Value:
        """Do something in the first process only; all processes get its result, or raise an error if it failed.

        Everything that only the first process does and that may fail must go through this, because the other processes
        would wait for it until the timeout. The result is sent to them, so it must be a plain value.
        """
        if self.size == 1:
            return work()
        result, error = _attempt(work) if self.is_first else (None, None)
        sent: list[Any] = [result, None if error is None else _describe(error)]
        dist.broadcast_object_list(sent, src=0)
        if error is not None:
            raise error
        if sent[1] is not None:
            raise FailedElsewhere(sent[1])
        return sent[0]

    def on_all(self, work: Callable[[], Value]) -> Value:
        """Do something in every process, without collective calls in it; if it fails in any, all raise an error."""
        if self.size == 1:
            return work()
        result, error = _attempt(work)
        messages = self.gather(None if error is None else _describe(error))
        if error is not None:
            raise error
        for rank, message in enumerate(messages):
            if message is not None:
                raise FailedElsewhere(f"process {rank}: {message}")
        return result  # type: ignore[return-value]

    def _reduced(self, value: float, by: Any) -> float:
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, by)
        return tensor.item()


def _attempt(work: Callable[[], Value]) -> tuple[Value | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # whatever it is, the other processes must not wait
        return None, error


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


ALONE = World(0, 1, torch.device("cpu"))


def started_rank() -> int:
    """The rank that torchrun gave this process; 0 if it was started alone."""
    return int(os.environ.get("RANK", 0))


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Join the processes that torchrun started, if it did, and leave the group at the end."""
    rank, size = started_rank(), int(os.environ.get("WORLD_SIZE", 1))
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
