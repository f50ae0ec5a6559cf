"""The overhead of the training loop: the share of a step that is not forward, backward or optimiser.

    python benchmarks/loop.py [--rounds 20] [--tokens 4096] [--threads 0] [--store FOLDER] [key=value …]

A real run of the preset `iwslt`, with the key=value overrides, in a folder that is deleted afterwards. It includes
reading ahead, metrics, display and checkpoint. Its parts are timed from outside, each without the parts it calls. The
data is a store made by `lamina prepare`, or else the embedded languages; a batch has about `--tokens` of source and
target together. `--rounds` is the number of steps, after one to warm up.

Counted as the loop's own, to be strict: clipping, freeing the gradients, the processor time of the thread that makes
batches (though it runs beside the step), and a checkpoint as often as by default. Validation is left out:
it is forward passes, as many as the user asks for.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lamina.config import read_overrides
from lamina.data.batches import ReadAhead
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.files.atomic import write_file
from lamina.run_folder.folder import RunFolder
from lamina.training import loop
from lamina.training.callbacks.display import Display
from lamina.training.config import RunConfig, TrainOptions
from lamina.training.distributed.world import World
from lamina.training.loop import Training
from pairs import Estimate, Numbers, estimate

BOUND = 0.02
WORK = ("forward", "backward", "optimiser")
WAITING, REST = "waiting for a batch", "everything else"


class Stopwatch:
    """Measures seconds by step and part; the rest of the loop, outside all parts, counts as a part too."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = [defaultdict(float)]  # the first: what comes before any step
        self._running: list[str] = []
        self._since = 0.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            elsewhere = threading.current_thread() is not threading.main_thread()
            if elsewhere or self._running not in ([], [REST]):  # within a part there are no others
                return function(*arguments, **keywords)
            self._charge()
            if part == WAITING:  # with it every step begins
                self.steps.append(defaultdict(float))
            self._running.append(part)
            try:
                return function(*arguments, **keywords)
            finally:
                self._charge()
                self._running.pop()

        return call

    def _charge(self) -> None:
        """Add the time since the last change to the part that was running."""
        now = time.perf_counter()
        if self._running:
            self.steps[-1][self._running[-1]] += now - self._since
        self._since = now


@dataclass(frozen=True)
class Profile:
    """The time of a run by part."""

    parts: list[str]
    seconds: Numbers  # (steps, parts)
    checkpoint: float  # once
    validation: float  # once

    @property
    def means(self) -> dict[str, float]:
        return dict(zip(self.parts, self.seconds.mean(0).tolist(), strict=True))

    @property
    def own_share(self) -> Estimate:
        """The share of the loop, from means rather than medians, so that rare events count."""
        work = [part in WORK for part in self.parts]
        return estimate(self.seconds, lambda means: 1 - means[..., work].sum(-1) / means.sum(-1), centre=np.mean)


def watch(training: Training, stopwatch: Stopwatch, made: list[float]) -> ExitStack:
    """Time every part, and the thread that makes each batch; closing the result removes the timers."""
    parts: list[tuple[str, Any, str]] = [
        (WAITING, ReadAhead, "__next__"),
        ("forward", training.task, "losses"),
        ("backward", torch.autograd, "backward"),
        ("clipping", loop, "clip_gradients"),
        ("optimiser", training.optimiser, "step"),
        ("freeing gradients", training.optimiser, "zero_grad"),
        ("display", training.display, "on_step"),
        ("metrics.jsonl", training.folder.metrics, "append"),
        ("checkpoint", training, "save"),
        ("validation", training.task, "total_losses"),
        ("validation", training.task, "unigram_nll"),
        (REST, training, "run"),
    ]
    patches = ExitStack()
    for part, owner, name in parts:
        patches.enter_context(patch.object(owner, name, stopwatch.timed(part, getattr(owner, name))))
    patches.enter_context(
        patch.object(loop, "ReadAhead", lambda items, **options: ReadAhead(_timed(items, made), **options))
    )
    return patches


def _timed(items: Iterator[Any], seconds: list[float]) -> Iterator[Any]:
    """Measure processor time, not wall time, because the thread waits for the step."""
    while True:
        began = time.thread_time()
        item = next(items)
        seconds.append(time.thread_time() - began)
        yield item


def profile(config: RunConfig, store: Store, folder: Path) -> Profile:
    """Train as the config says and measure the time of each part."""
    stopwatch, made = Stopwatch(), []
    with RunFolder(folder).claim() as run_folder:
        training = Training(config, store, run_folder, World(0, 1, torch.device("cpu")), Display())
        with watch(training, stopwatch, made):
            training.run()
    steps = stopwatch.steps[2:]  # neither what comes before nor the step that warms up
    checkpoint, validation = (sum(step.pop(part, 0.0) for step in steps) for part in ("checkpoint", "validation"))
    parts = sorted({part for step in steps for part in step})
    seconds = np.array([[step.get(part, 0.0) for part in parts] for step in steps])
    every = TrainOptions().save_every
    spread = np.tile([float(np.mean(made)), checkpoint / every], (len(steps), 1))
    return Profile(
        [*parts, "making batches (a thread)", f"checkpoint every {every}"],
        np.hstack([seconds, spread]),
        checkpoint,
        validation,
    )


def show(found: Profile) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("part", style="cyan", no_wrap=True)
    for heading in ("ms / step", "share"):
        table.add_column(heading, justify="right")
    total = sum(found.means.values())
    for part, mean in sorted(found.means.items(), key=lambda item: -item[1]):
        table.add_row(part, f"{1000 * mean:,.2f}", f"{mean / total:.3%}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\nOnce: checkpoint {found.checkpoint:.2f} s, validation {found.validation:.2f} s")
    share = found.own_share
    verdict = "[green]met[/]" if share.reaches(BOUND) else "[red]missed[/]"
    interval = f"{share.low:.2%} – {share.high:.2%}"
    console.print(
        f"The loop's own: {share.value:.2%} ({interval}) over {len(found.seconds)} steps; {BOUND:.0%} {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="options of the model that differ from the preset, as key=value")
    parser.add_argument("--rounds", type=int, default=20, help="steps that are measured")
    parser.add_argument("--tokens", type=int, default=4096, help="of source and target together, at most")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch chooses")
    parser.add_argument("--store", help="real data, made by lamina prepare; otherwise the embedded languages")
    parser.add_argument("--output", help="a JSON file for all that was measured")
    given = parser.parse_args()

    if given.threads:
        torch.set_num_threads(given.threads)
    values = {
        "model": {"preset": "iwslt", **read_overrides(given.overrides)},
        "data": {"max_tokens": given.tokens // 2, "oversize": "alone"},
        "schedule": {"learning_rate": 1e-4},
        "train": {"steps": given.rounds + 1, "clip_norm": 1.0, "validate_every": 0, "save_every": 0, "samples": 0},
    }
    with tempfile.TemporaryDirectory() as folder:
        embedded = {"output": f"{folder}/store", "train": ["translation:4000"], "valid": ["translation:50"], "test": ()}
        store = (
            Store.open(given.store) if given.store else prepare(source_options("embedded-translation", ".", **embedded))
        )
        found = profile(RunConfig.read(values, where="the benchmark"), store, Path(folder, "run"))
    show(found)
    if given.output:
        settings = {name: getattr(given, name) for name in ("tokens", "rounds", "store", "overrides")}
        result = {"settings": settings | {"threads": torch.get_num_threads()}, "seconds_per_step": found.means}
        result |= {"own_share": found.own_share.to_json(), "bound": BOUND, "met": found.own_share.reaches(BOUND)}
        result |= {"checkpoint": found.checkpoint, "validation": found.validation}
        write_file(given.output, json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
