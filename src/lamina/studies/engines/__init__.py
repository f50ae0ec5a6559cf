"""Engines train the cells of a grid: in processes of this machine, or wherever else runs can be sent.

A cell is a run folder with a config in it. Only an exit code comes back, that of `Status.exit_code`; results are read
from the folder.
"""

from __future__ import annotations

import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from lamina.run_folder.folder import RunFolder


class Engine(Protocol):
    """The part of `concurrent.futures.Executor` that a comparison needs."""

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        """Train the run of this folder, from the start or from its latest checkpoint; the result is the exit code.

        diagnose: whether it is diagnosed afterwards.
        """
        ...

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Save the runs that are being trained, and end them."""
        ...


def last_message(path: Path, code: int) -> str:
    """Why a run ended with an error: the signal that killed it, or the last line of its log."""
    if code < 0:
        hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"it was killed by signal {-code} ({signal.Signals(-code).name}){hint}"
    log = RunFolder(path).log
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1] if lines else f"exit code {code}, and no message"
