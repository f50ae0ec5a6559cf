"""Engines train the cells of a grid: in processes of this machine, or wherever else runs can be sent.

A cell is a run folder with a config in it. Only an exit code comes back, that of `Status.exit_code`; results are read
from the folder.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Protocol


class Engine(Protocol):
    """The part of `concurrent.futures.Executor` that a comparison needs."""

    def submit(self, run: Path) -> Future[int]:
        """Train the run of this folder, from the start or from its latest checkpoint; the result is the exit code."""
        ...

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Save the runs that are being trained, and end them."""
        ...
