"""One training step of a model on a batch of random tokens: how long it takes, and how much memory a process needs."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from lamina import Transformer
from lamina.model.options import ModelOptions, pair
from lamina.training.optimisers import OptimiserOptions, build_optimiser, set_learning_rate

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SENTENCE = 25  # tokens, on average
FIRST_WORD = 4  # ids below it are special


class Step:
    """A model with its optimiser and its batch; a call does one update and returns the seconds it took (on a CPU)."""

    def __init__(self, options: ModelOptions, tokens: int) -> None:
        torch.manual_seed(1)
        self.model = Transformer.build(options).train()
        self.batch = random_batch(options, tokens)
        self.model.calibrate(**{name: value for name, value in self.batch.items() if name != "labels"})  # type: ignore[operator]
        self.optimiser = build_optimiser(OptimiserOptions(), self.model)
        set_learning_rate(self.optimiser, 1e-5)  # so small that no scheme diverges, because NaN would take more time
        self.done = 0

    def __call__(self) -> float:
        self.done += 1
        torch.manual_seed(self.done)
        began = time.perf_counter()
        self.model(**self.batch, smoothing=0.1).smoothed.mean().backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return time.perf_counter() - began


def random_batch(options: ModelOptions, tokens: int) -> dict[str, Any]:
    """Packed arguments of the model's forward: `tokens` in all, those of source and target together."""
    if options.kind != "encoder-decoder":
        ids, lengths = _sentences(tokens, pair(options.vocab_size)[0], seed=1)
        return {"tokens": ids, "lengths": lengths, "labels": ids.roll(-1)}
    (source, lengths), (target, _) = (
        _sentences(tokens // 2, size, seed) for seed, size in enumerate(pair(options.vocab_size))
    )
    lengths_by_side = {"source_lengths": lengths, "target_lengths": lengths}
    return {"source": source, "target": target, "labels": target.roll(-1), **lengths_by_side}


def _sentences(tokens: int, vocab_size: int, seed: int) -> tuple[Tensor, Any]:
    """Random words, in sentences of 15 to 35 that fill `tokens` exactly; the lengths do not depend on the seed."""
    drawn = np.random.default_rng(0).integers(SENTENCE - 10, SENTENCE + 11, tokens // (SENTENCE - 10) + 1)
    ends = np.minimum(np.cumsum(drawn), tokens)
    lengths = np.diff(np.unique(ends), prepend=0)
    return torch.from_numpy(np.random.default_rng(seed).integers(FIRST_WORD, vocab_size, tokens)), lengths


def peak_memory(options: ModelOptions, tokens: int, steps: int, threads: int) -> int:
    """The largest resident memory, in bytes, of a fresh process that does a few updates."""
    return in_fresh_process(_peak_after_steps, options, tokens, steps, threads)


def _peak_after_steps(options: ModelOptions, tokens: int, steps: int, threads: int) -> int:
    torch.set_num_threads(threads)
    step = Step(options, tokens)
    for _ in range(steps):
        step()
    return resident_maximum()


def in_fresh_process(
    function: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs
) -> Result:
    """The function's result, from a process that has done nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments, **keywords).result()


def resident_maximum() -> int:
    """The largest resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike ru_maxrss, not inherited from the process that started this one
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
