"""Batches decoded side by side on a CPU, each on one thread.

The products of a decoding step are too small to be shared well by several threads, and between them there is work that
only one thread does. So two batches on one thread each take less time than one after the other on two threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import nn

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def count_workers(model: nn.Module) -> int:
    """How many batches are decoded at a time: one for each of torch's threads on a CPU.

    It is one where the state of the calling thread matters: under autocast, under torch's function modes, and in
    training mode, which decoding leaves and restores.
    """
    depends_on_thread = (
        torch.is_autocast_enabled("cpu")
        or torch._C._len_torch_function_stack() > 0
        or any(module.training for module in model.modules())
    )
    is_on_cpu = next(model.parameters()).device.type == "cpu"
    return torch.get_num_threads() if is_on_cpu and not depends_on_thread else 1


def divide(batches: Sequence[list[int]], workers: int) -> list[list[int]]:
    """At least as many batches as workers, if there are as many items: a single one is dealt out to all of them."""
    if len(batches) != 1:
        return list(batches)
    return [batches[0][first::workers] for first in range(min(workers, len(batches[0])))]


def side_by_side(work: Callable[[Batch], Result], batches: Sequence[Batch], workers: int) -> Iterator[Result]:
    """The result of every batch, in their order, of which `workers` are computed at a time."""
    if workers == 1 or len(batches) == 1:
        yield from map(work, batches)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, "decoding", initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, batches)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread that is made later has the number that was set last, anywhere
