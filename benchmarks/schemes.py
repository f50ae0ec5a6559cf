"""The cost of each scheme relative to post-LN: time of a training step and peak memory, as ratios.

    python benchmarks/schemes.py [--schemes pre-ln,b2t] [--rounds 5] [--tokens 4096] [--threads 0] [key=value …]

A step is forward, backward, clipping and Adam on one fixed batch of random sentences, source and target together
`--tokens`; the model is the preset `iwslt`, with the key=value overrides. All models are in one process (about
0.45 GB each) and run in turn. A round does every scheme once, in random order, with a post-LN step after every second
one:

    post  A  B  post  C  D  post  E …       A is paired with the step before it, B with the one after it, …

So each scheme is measured right next to a post-LN step, now before, now after it, and two share one; pairs of the same
scheme share nothing. What is reported is the ratio of medians with a bootstrap interval over its pairs. A bound is met
when the interval reaches it. `post-ln` among the schemes is a second model of the same kind: it shows the noise.
Memory is the resident maximum of a fresh process for each scheme, after `--memory-steps` steps.

Numbers to quote need `--rounds 30`; an interrupted run (Ctrl-C) reports the rounds that it has finished.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lamina import residual
from lamina.config import read_overrides
from lamina.files.atomic import write_file
from lamina.model.options import ModelOptions
from pairs import ENOUGH, Estimate, counted, ratio_of_medians
from steps import Step, peak_memory

BASELINE = "post-ln"
CLOSE = ("pre-ln", "b2t", "resi-dual", "admin", "deep-norm")
COSTLY = ("dlcl", "dense-former", "hyper-connections")  # they keep or mix several streams: no bound
CLOSE_TIME, CLOSE_MEMORY, OTHER_TIME = 1.03, 1.10, 1.15

Pair = tuple[float, float]


@dataclass(frozen=True)
class Cost:
    """The cost of one scheme, relative to post-LN."""

    scheme: str
    seconds: float
    time: Estimate
    bytes: int
    memory: float

    @property
    def bounds(self) -> dict[str, float]:
        if self.scheme in CLOSE:
            return {"time": CLOSE_TIME, "memory": CLOSE_MEMORY}
        return {} if self.scheme in (BASELINE, *COSTLY) else {"time": OTHER_TIME}

    @property
    def met(self) -> dict[str, bool]:
        reached = {"time": self.time.reaches, "memory": lambda bound: self.memory <= bound}
        return {what: reached[what](bound) for what, bound in self.bounds.items()}

    def to_json(self) -> dict[str, Any]:
        measured = {"seconds": self.seconds, "time": self.time.to_json(), "bytes": self.bytes, "memory": self.memory}
        return measured | {"bounds": self.bounds, "met": self.met}


def one_round(steps: Mapping[str, Step], baseline: Step, number: int) -> dict[str, Pair]:
    """Every scheme's seconds, each with those of the post-LN step next to it."""
    turns = random.Random(number).sample(sorted(steps), len(steps))
    pairs: dict[str, Pair] = {}
    before = baseline()
    for first, second in zip_longest(turns[::2], turns[1::2]):
        pairs[first] = steps[first](), before
        if second is not None:
            seconds, before = steps[second](), baseline()
            pairs[second] = seconds, before
    return pairs


def iwslt(scheme: str, overrides: Mapping[str, Any]) -> ModelOptions:
    return ModelOptions.read({"preset": "iwslt", "residual": scheme, **overrides}, where="the benchmark")


def measure_times(
    schemes: Sequence[str], rounds: int, tokens: int, overrides: Mapping[str, Any]
) -> dict[str, list[Pair]]:
    steps = {scheme: Step(iwslt(scheme, overrides), tokens) for scheme in schemes}
    baseline = Step(iwslt(BASELINE, overrides), tokens)
    for step in (baseline, *steps.values()):  # the first makes the optimiser's state
        step()
    pairs: dict[str, list[Pair]] = {scheme: [] for scheme in schemes}
    with suppress(KeyboardInterrupt):
        for number in counted(range(rounds), "rounds"):
            for scheme, pair in one_round(steps, baseline, number).items():
                pairs[scheme].append(pair)
    return pairs


def show(costs: Sequence[Cost], rounds: int) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheme", style="cyan", no_wrap=True)
    for heading in ("time / post-ln", "peak", "/ post-ln"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for cost in costs:
        table.add_row(
            cost.scheme, str(cost.time), f"{cost.bytes / 2**20:,.0f} MiB", f"{cost.memory:.3f}", _verdict(cost)
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\nMet: {CLOSE_TIME} of the time and {CLOSE_MEMORY} of the memory for {', '.join(CLOSE)};")
    console.print(f"{OTHER_TIME} of the time for the others, {', '.join(COSTLY)} aside.")
    if rounds < ENOUGH:
        console.print(f"Pairs per scheme: {rounds}. Too few to quote, which takes {ENOUGH}.")


def _verdict(cost: Cost) -> str:
    if not cost.bounds:
        return "the same again" if cost.scheme == BASELINE else "no bound"
    missed = [what for what, met in cost.met.items() if not met]
    return f"[red]missed: {', '.join(missed)}[/]" if missed else "[green]met[/]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="options of the model that differ from the preset, as key=value")
    parser.add_argument("--schemes", default=",".join(residual.names()), help="separated by commas; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4096, help="of source and target together")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch chooses")
    parser.add_argument("--memory-steps", type=int, default=3)
    parser.add_argument("--output", help="a JSON file for all that was measured")
    given = parser.parse_args()

    if given.threads:
        torch.set_num_threads(given.threads)
    threads, overrides = torch.get_num_threads(), read_overrides(given.overrides)
    schemes = [residual.find(name).name for name in given.schemes.split(",")]
    peaks = {
        scheme: peak_memory(iwslt(scheme, overrides), given.tokens, given.memory_steps, threads)
        for scheme in counted(list(dict.fromkeys([BASELINE, *schemes])), "memory")
    }
    pairs = measure_times(schemes, given.rounds, given.tokens, overrides)
    rounds = min(map(len, pairs.values()))
    if not rounds:
        sys.exit("interrupted before the first round was finished: nothing to report")
    costs = [
        Cost(
            scheme,
            seconds=float(np.median([own for own, _ in pairs[scheme]])),
            time=ratio_of_medians(pairs[scheme]),
            bytes=peaks[scheme],
            memory=peaks[scheme] / peaks[BASELINE],
        )
        for scheme in schemes
    ]
    show(costs, rounds)
    if given.output:
        settings = {"tokens": given.tokens, "rounds": rounds, "threads": threads, "overrides": overrides}
        found = {"settings": settings, "schemes": {cost.scheme: cost.to_json() for cost in costs}, "pairs": pairs}
        write_file(given.output, json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    main()
