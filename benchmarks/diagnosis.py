"""The cost of a diagnosis and of watching, in training steps of GPT-2 small with random weights.

    python benchmarks/diagnosis.py [time] [memory] [watch] [--sequences 4] [--length 256] [--rounds 3] [--threads 0]

time    a quick and a full diagnosis of one batch, relative to a training step on it (forward, backward, clipping,
        AdamW); steps are timed before, between and after the diagnoses
memory  the peak of resident memory, each in a process of its own, above what the process has before the model is built
watch   a step that is watched and one that is observed, relative to a plain one, in turn; with an observation every 100
        steps the cost is the first plus a hundredth of the second
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import transformers
from rich.console import Console
from torch import Tensor, nn
from torch.optim import AdamW

import lamina
from lamina.files.atomic import write_file

LEARNING_RATE, EVERY = 3e-4, 100
BOUNDS = {"quick": 8.0, "full": 15.0, "quick memory": 1.3, "full memory": 1.3, "watching": 0.01}
"""The largest numbers aimed at: training steps of time, multiples of a training step's memory, a share of time."""
WATCHED_FROM = 60
"""A step after the first fifty, in which watching is denser."""


class Subject:
    """GPT-2 small, a batch, and its training step."""

    def __init__(self, sequences: int, length: int) -> None:
        torch.manual_seed(1)
        build: Any = transformers.GPT2LMHeadModel
        self.model: nn.Module = build(transformers.GPT2Config()).train()
        tokens = torch.randint(0, self.model.config.vocab_size, (sequences, length))
        self.batch: dict[str, Tensor] = {"input_ids": tokens, "labels": tokens}
        self.optimiser = AdamW(self.model.parameters(), lr=LEARNING_RATE)

    def step(self) -> None:
        self.model(**self.batch).loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def diagnose(self, *, quick: bool) -> None:
        lamina.diagnose(self.model, self.batch, learning_rate=LEARNING_RATE, quick=quick)

    def watched_step(self, number: int) -> float:
        """The seconds of a step that is watched: observed if its number is a multiple of `EVERY`."""
        with lamina.watch(self.model, self.optimiser, every=EVERY, step=number - 1) as watch:
            seconds = timed(self.step)
        assert len(watch.history) == (number % EVERY == 0)
        return seconds


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_time(subject: Subject, rounds: int) -> dict[str, float]:
    """The times of both diagnoses in training steps."""
    subject.step()
    steps, found = [timed(subject.step) for _ in range(rounds)], {}
    for name in ("quick", "full"):
        found[name] = timed(lambda name=name: subject.diagnose(quick=name == "quick"))
        steps += [timed(subject.step) for _ in range(rounds)]
    step = median(steps)
    return {"step, seconds": step} | {name: seconds / step for name, seconds in found.items()}


def measure_memory(sequences: int, length: int) -> dict[str, float]:
    """The peaks in bytes, and those of the diagnoses relative to a training step."""
    peaks = {}
    for what in ("training", "quick", "full"):
        command = [sys.executable, __file__, "--peak", what, "--sequences", str(sequences), "--length", str(length)]
        peaks[what] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    ratios = {f"{name} memory": peaks[name] / peaks["training"] for name in ("quick", "full")}
    return {"step, bytes": peaks["training"]} | ratios


def peak_of(what: str, sequences: int, length: int) -> float:
    before = peak()
    subject = Subject(sequences, length)
    for _ in range(2):
        if what == "training":
            subject.step()
    if what != "training":
        subject.diagnose(quick=what == "quick")
    return peak() - before


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def measure_watching(subject: Subject, rounds: int) -> dict[str, float]:
    subject.step()
    plain, watched, observed = [], [], []
    for _ in range(rounds):
        plain.append(timed(subject.step))
        watched.append(subject.watched_step(WATCHED_FROM))
        observed.append(subject.watched_step(EVERY))
    step, extra = median(plain), median(watched) - median(plain)
    more = median(observed) - median(watched)
    shares = {"watched": extra / step, "observed": (extra + more) / step}
    return {"plain step, seconds": step} | shares | {"watching": (extra + more / EVERY) / step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", help="time, watch, memory; all by default")
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch chooses")
    parser.add_argument("--peak", choices=("training", "quick", "full"), help=argparse.SUPPRESS)
    parser.add_argument("--output", help="a JSON file for all that was measured")
    given = parser.parse_args()
    if unknown := set(given.what) - {"time", "watch", "memory"}:
        parser.error(f"{', '.join(unknown)}: neither time, watch nor memory")
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.peak:
        print(peak_of(given.peak, given.sequences, given.length))
        return
    found: dict[str, float] = {}
    if not given.what or "time" in given.what:
        found |= measure_time(Subject(given.sequences, given.length), given.rounds)
    if not given.what or "watch" in given.what:
        found |= measure_watching(Subject(given.sequences, given.length), given.rounds)
    if not given.what or "memory" in given.what:
        found |= measure_memory(given.sequences, given.length)
    console = Console(highlight=False)
    for name, value in found.items():
        bound = BOUNDS.get(name)
        verdict = "" if bound is None else f"  at most {bound}: {'met' if value <= bound else 'missed'}"
        console.print(f"{name:20} {value:12,.4g}{verdict}")
    if given.output:
        settings = {name: getattr(given, name) for name in ("sequences", "length", "rounds")}
        result = {"settings": settings | {"threads": torch.get_num_threads()}, "measured": found, "bounds": BOUNDS}
        write_file(given.output, json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
