"""Commands side by side on this machine: a process each, so many at a time.

Workers say nothing to the pool but their exit code: how far they are is in their run folders. Whatever ends the pool
ends them, for each holds the other end of a pipe that closes with it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.5
SECONDS_TO_LEAVE = 60


@dataclass(frozen=True)
class Job:
    """A command, and the file that gets what it prints."""

    name: str
    command: tuple[str, ...]
    log: Path


def run_jobs(jobs: Sequence[Job], workers: int, watch: Callable[[set[str]], None]) -> dict[str, int]:
    """The exit code of every job. `watch` is called now and then with the names of those at work."""
    waiting, active, codes = list(jobs), dict[str, subprocess.Popen[bytes]](), dict[str, int]()
    try:
        while waiting or active:
            while waiting and len(active) < workers:
                job = waiting.pop(0)
                active[job.name] = _start(job)
            watch(set(active))
            time.sleep(POLL_SECONDS)
            codes |= {name: process.returncode for name, process in active.items() if process.poll() is not None}
            active = {name: process for name, process in active.items() if name not in codes}
        watch(set())
    finally:
        _end(list(active.values()))
    return codes


def _start(job: Job) -> subprocess.Popen[bytes]:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        return subprocess.Popen(job.command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask them to save and leave; they have a moment for it."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
