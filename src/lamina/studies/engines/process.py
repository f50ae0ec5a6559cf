"""The process that trains one run, wherever an engine starts it; its output goes to the log of the run folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lamina.run_folder.folder import RunFolder

SECONDS_TO_LEAVE = 60
"""Seconds that a process has to save its run after SIGTERM."""


def worker_command(run: Path, threads: int = 1, diagnose: bool = True) -> tuple[str, ...]:
    """The command that trains a run."""
    options = ("--threads", str(threads), "--wait", str(SECONDS_TO_LEAVE), *(() if diagnose else ("--no-diagnosis",)))
    return (sys.executable, "-m", "lamina.studies.worker", str(run), *options)


def start_worker(run: Path, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start the process of a run. It saves the run and exits when this process ends."""
    log_file = RunFolder(run).log
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)


def end_worker(process: subprocess.Popen[bytes]) -> int:
    """Have the process save its run and exit; returns its exit code."""
    process.terminate()
    try:
        return process.wait(SECONDS_TO_LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def train_in_process(run: str, threads: int, diagnose: bool) -> int:
    """Train a run in a process of this machine and wait for its end; returns its exit code."""
    process = start_worker(Path(run), worker_command(Path(run), threads, diagnose))
    try:
        return process.wait()
    finally:
        if process.poll() is None:  # the engine was shut down
            end_worker(process)
