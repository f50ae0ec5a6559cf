"""Training steps on a CPU, compared with other libraries on models of the same size and the same batches.

    python benchmarks/training.py [--rows bucketed,lm] [--peers fairseq,…] [--rounds 5] [--threads 2] [--quick]
                                  [--allocator shipped] [--clock wall] [--output results.json]
                                  [--picture training.svg] [--seconds 200] [key=value …]

A step is forward pass, mean cross-entropy over the whole vocabulary, backward pass and fused Adam. Every library gets
the same sentences of random words; Lamina packs them, the others pad them. Each runs in a process of its own, and a
round asks each for one pass over all batches, in random order, together with a few large matrix products, which give
the peak of the machine in that round. Ratios are those of medians, with bootstrap intervals over rounds. Operations are
counted on real tokens. Memory is the resident maximum of the process. The row `processes` compares Lamina on one and on
two processes of one thread.

With `--allocator shipped` Lamina keeps freed memory, as its commands do, and the other libraries have the settings of
the environment; with `same` all keep it, with `default` none does. A library that is not installed or fails is a row
with the reason. `--output` adds each row, as soon as it is measured, to those that the file has already; peers that
were not measured again keep their times with those of Lamina beside them, so that a row can be measured in parts. With
`--seconds` no round but the first begins that would end later, counted from the start of the row. An interrupted
program (Ctrl-C, SIGTERM) reports the rounds that it has finished. On a machine that does other work, `--clock
processor` with `--threads 1` compares the time on the processor.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import time
import warnings
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from contenders import CLOCKS, GEMM, Facts, Remote, keeps_memory
from lamina.config import read_overrides
from lamina.files.atomic import write_file
from pairs import rounds_until
from processes import PROCESSES, measure_processes
from training_peers import LAMINA
from training_rows import Row, all_rows
from training_table import draw, show

QUICK = 4
"""The factor by which a quick run has fewer tokens."""


def measure(
    row: Row,
    peers: list[str],
    rounds: int,
    threads: int,
    allocator: str,
    clock: str = "wall",
    seconds: float = math.inf,
) -> dict[str, Any]:
    """The record of a row: seconds of each contender and of Lamina beside it, memory, parameters, failures."""
    until = time.monotonic() + seconds
    turn = get_context("spawn").Lock()
    remotes = [
        Remote(name, row, threads, keeps_memory(name, allocator), clock, turn) for name in (LAMINA, *peers, GEMM)
    ]
    try:
        facts = {remote.name: remote.wait_until_ready() for remote in remotes}
        times = _rounds(remotes, rounds, until)
        facts |= {remote.name: remote.facts for remote in remotes}
        memory = {remote.name: remote.peak_memory() for remote in remotes}
    finally:
        for remote in remotes:
            remote.stop()
    settings = {"threads": row.threads or threads, "allocator": allocator, "clock": clock, "torch": torch.__version__}
    return {
        "title": row.title,
        "goals": {"ratio": row.goal, "share": row.goal_share},
        "flops": row.flops,
        "tokens": row.tokens,
        "contenders": {
            remote.name: _record(remote.name, facts[remote.name], times, memory[remote.name]) | settings
            for remote in remotes
            if remote.name != GEMM
        },
    }


def _rounds(remotes: list[Remote], rounds: int, until: float) -> dict[str, list[float | None]]:
    """The seconds of each contender in each round."""
    seconds: dict[str, list[float | None]] = {remote.name: [] for remote in remotes}
    order, shuffle = list(remotes), random.Random(1).shuffle
    with suppress(KeyboardInterrupt):
        for _ in rounds_until(rounds, until):
            shuffle(order)
            taken = {remote.name: remote.step() for remote in order}
            for name, each in taken.items():
                seconds[name].append(each)
    return seconds


def _record(name: str, facts: Facts, seconds: dict[str, list[float | None]], memory: int | None) -> dict[str, Any]:
    if facts.failure or not seconds[name]:
        return {"failure": facts.failure or "ended before the first round was finished"}
    return {
        "seconds": seconds[name],
        "beside": seconds[LAMINA],
        "gemm": seconds[GEMM],
        "memory": memory,
        "parameters": facts.parameters,
        "note": facts.note,
    }


def merge(file: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What the file has, with the new rows; contenders of a row that were not measured again are kept."""
    stored = json.loads(file.read_bytes()) if file.exists() else {}
    for name, row in found.items():
        kept = stored.get(name, {}).get("contenders", {})
        stored[name] = row | ({"contenders": kept | row["contenders"]} if "contenders" in row else {})
    write_file(file, json.dumps(stored, indent=1).encode())
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="options of all models that differ from the rows', as key=value")
    parser.add_argument("--rows", help="separated by commas; all by default")
    parser.add_argument("--peers", help="separated by commas; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--allocator", choices=("shipped", "same", "default"), default="shipped")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="processor: for a busy machine")
    parser.add_argument("--quick", action="store_true", help="a quarter of the tokens; not to be quoted")
    parser.add_argument("--output", type=Path, help="a JSON file, to which the rows are added")
    parser.add_argument("--picture", help="an SVG file of all rows")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of a row; by then its last round has ended")
    given = parser.parse_args()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an ended program reports what it has
    warnings.simplefilter("ignore")  # peers on a newer torch than they know
    rows = {row.name: row for row in all_rows(QUICK if given.quick else 1, read_overrides(given.overrides))}
    wanted = given.rows.split(",") if given.rows else [*rows, PROCESSES]
    if unknown := [name for name in wanted if name not in (*rows, PROCESSES)]:
        sys.exit(f"no row {', '.join(unknown)}; the rows are {', '.join([*rows, PROCESSES])}")
    stored: dict[str, Any] = {}
    for name in wanted:
        if name == PROCESSES:
            tokens = 4096 // (QUICK if given.quick else 1)
            found = measure_processes(rows["bucketed"].options, tokens, given.rounds)
        else:
            peers = [peer for peer in rows[name].peers if given.peers is None or peer in given.peers.split(",")]
            how = given.rounds, given.threads, given.allocator, given.clock, given.seconds
            found = measure(rows[name], peers, *how)
        stored = merge(given.output, {name: found}) if given.output else stored | {name: found}
    show(stored)
    if given.picture:
        draw(stored, given.picture)


if __name__ == "__main__":
    main()
