"""Real processes: several that talk over gloo, and one that can be interrupted."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run_in_processes(count: int, function: Callable[..., None], *arguments: Any) -> None:
    """`function(rank, count, *arguments)` in each of `count` processes; an error in one is raised here."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(_enter, (count, port, function, arguments), nprocs=count)


def _enter(rank: int, count: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=count)
    try:
        function(rank, count, *arguments)
    finally:
        dist.destroy_process_group()


def heed_interrupts() -> None:
    """Before a child starts: where tests run in the background, it would inherit that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def limit_files(size: int) -> None:
    """In a new process: no file may grow beyond that many bytes; whoever tries gets an error, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
