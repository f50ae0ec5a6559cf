"""Contenders in processes of their own: each is built once and does a step when asked, one at a time.

So every library has its own allocator, threads and peak memory, and one that fails ends its own process only.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from typing import Any

import torch

from lamina.training.machine.allocator import keep_freed_memory
from steps import resident_maximum
from training_peers import LAMINA, build_contender
from training_rows import Row

GEMM = "matrix products"
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
SHAPES = ((4096, 512, 1024), (2048, 2048, 2048), (4096, 512, 2048))


@dataclass(frozen=True)
class Facts:
    """What a contender says of itself before the first round."""

    parameters: int = 0
    """The number of parameters that get a gradient."""
    note: str = ""
    failure: str = ""


class Remote:
    """A contender in another process."""

    def __init__(self, name: str, row: Row, threads: int, keep_memory: bool, clock: str, turn: Lock) -> None:
        """`turn` is held while the contender computes its first steps: all at once would take many times as long."""
        self.name = name
        self.end, other = get_context("spawn").Pipe()
        given = other, name, row, threads, keep_memory, clock, turn
        self.process = get_context("spawn").Process(target=serve, args=given)
        self.process.start()
        other.close()
        self.facts = Facts()

    def wait_until_ready(self) -> Facts:
        self.facts = self._receive("ready") or Facts(failure="its process ended")
        return self.facts

    def step(self) -> float | None:
        """The seconds of one pass over all batches; None if the contender has failed."""
        if self.facts.failure:
            return None
        answer = self._ask("step")
        if isinstance(answer, float):
            return answer
        self.facts = answer if isinstance(answer, Facts) else Facts(failure="its process ended")
        return None

    def peak_memory(self) -> int | None:
        """The largest resident memory of its process, in bytes."""
        return None if self.facts.failure else self._ask("memory")

    def stop(self) -> None:
        self._ask("stop", wait=False)
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()

    def _ask(self, word: str, wait: bool = True) -> Any:
        try:
            self.end.send(word)
        except OSError:
            return None
        return self._receive(word) if wait else None

    def _receive(self, word: str) -> Any:
        """The answer to a word; None if the process has ended. Answers that nobody waited for are dropped."""
        try:
            while (answer := self.end.recv())[0] != word:
                pass
            return answer[1]
        except (EOFError, OSError):
            return None


def serve(end: Connection, name: str, row: Row, threads: int, keep_memory: bool, clock: str, turn: Lock) -> None:
    """Build the contender, then answer until told to stop."""
    ignore_interruptions()
    torch.set_num_threads(row.threads or threads)
    try:
        if keep_memory:
            keep_freed_memory()
        with turn:  # the contender warms up
            step, facts = _peak_of_products(clock) if name == GEMM else _training(name, row, clock)
    except Exception as error:  # a peer may fail in any way; that is a result
        end.send(("ready", _failure(error)))
        return
    end.send(("ready", facts))
    with suppress(EOFError, OSError):  # the program has ended
        while (word := end.recv()) != "stop":
            end.send((word, resident_maximum() if word == "memory" else _attempt(step)))


def ignore_interruptions() -> None:
    """A signal reaches all processes of the program; the first one reports what was measured and stops the others."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def _attempt(step: Callable[[], float]) -> float | Facts:
    try:
        return step()
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> Facts:
    return Facts(failure=f"{type(error).__name__}: {str(error).strip()[:200]}")


def _training(name: str, row: Row, clock: str) -> tuple[Callable[[], float], Facts]:
    contender, now = build_contender(name, row.options), CLOCKS[clock]
    model = contender.model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
    batches = [contender.prepare(batch) for batch in row.batches]
    contender.loss(batches[0]).backward()
    trained = sum(each.numel() for each in model.parameters() if each.grad is not None)  # some have unused copies
    optimiser.step()  # makes its state
    optimiser.zero_grad()

    def step() -> float:
        began = now()
        for batch in batches:
            contender.loss(batch).backward()
            optimiser.step()
            optimiser.zero_grad()
        return now() - began

    return step, Facts(trained, contender.note)


def _peak_of_products(clock: str) -> tuple[Callable[[], float], Facts]:
    """The seconds of 10¹² operations at the fastest of a few shapes of products."""
    now = CLOCKS[clock]
    pairs = [(torch.randn(m, k), torch.randn(k, n)) for m, k, n in SHAPES]
    results = [torch.empty(left.shape[0], right.shape[1]) for left, right in pairs]

    def step() -> float:
        rates = []
        for (left, right), result in zip(pairs, results, strict=True):
            began = now()
            for _ in range(4):
                torch.mm(left, right, out=result)
            rates.append((now() - began) / (4 * 2 * left.numel() * right.shape[1] / 1e12))
        return min(rates)

    step()
    return step, Facts()


def keeps_memory(name: str, allocator: str) -> bool:
    """Whether a contender keeps freed memory: as Lamina's commands do, or as all do."""
    return allocator == "same" or (allocator == "shipped" and name == LAMINA)
