"""Lamina on two processes of one thread each, relative to one: DDP over gloo, the same tokens in all."""

from __future__ import annotations

import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lamina import Transformer
from lamina.model.options import ModelOptions
from lamina.training.machine.allocator import keep_freed_memory
from steps import random_batch

PROCESSES = "processes"
GOAL = 1.8


def measure_processes(options: ModelOptions, tokens: int, rounds: int) -> dict[str, Any]:
    """The seconds of a step in each round, by number of processes."""
    with tempfile.TemporaryDirectory() as folder:
        groups = {size: _start(options, tokens, size, Path(folder) / str(size)) for size in (1, 2)}
        try:
            for ends in groups.values():
                _answers(ends)  # ready
            seconds: dict[str, list[float]] = {str(size): [] for size in groups}
            for _ in range(rounds):
                for size, ends in groups.items():
                    for end in ends:
                        end.send("step")
                    seconds[str(size)].append(max(_answers(ends)))
        finally:
            for ends in groups.values():
                for end in ends:
                    end.send("stop")
    return {"title": "two processes relative to one", "goals": {"ratio": GOAL}, "processes": seconds, "tokens": tokens}


def _answers(ends: list[Connection]) -> list[float]:
    return [end.recv() for end in ends]


def _start(options: ModelOptions, tokens: int, size: int, meeting: Path) -> list[Connection]:
    context, ends = get_context("spawn"), []
    for rank in range(size):
        end, other = context.Pipe()
        context.Process(target=_serve, args=(other, options, tokens // size, rank, size, meeting), daemon=True).start()
        ends.append(end)
    return ends


def _serve(end: Connection, options: ModelOptions, tokens: int, rank: int, size: int, meeting: Path) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    torch.manual_seed(1)
    model = Transformer.build(options).train()
    network = DistributedDataParallel(model) if size > 1 else model
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
    batch = random_batch(options, tokens)

    def step() -> float:
        began = time.perf_counter()
        network(**batch).smoothed.mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        return time.perf_counter() - began

    end.send(step())
    while end.recv() != "stop":
        end.send(step())
    dist.destroy_process_group()
