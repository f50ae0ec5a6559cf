"""A table of all runs of a comparison while they train: progress, losses, speed, time left and state.

It is read from the run folders alone. Where standard error is not a terminal, every change of state is a line instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from lamina.run_folder.folder import RunFolder
from lamina.terminal import open_console

SECONDS_BETWEEN_LINES = 30.0
STATES = {
    "failed": "[red]failed[/]",
    "too short": "[yellow]too short[/]",
    "finished": "[green]finished[/]",
    "waiting": "[dim]waiting[/]",
}


@dataclass
class RunProgress:
    """The progress of a run; NaN where a number is not known."""

    state: str = "waiting"
    step: int = 0
    steps: int = 1
    loss: float = math.nan
    validation_loss: float = math.nan
    tokens_per_second: float = math.nan
    seconds_left: float = math.nan


@dataclass
class ProgressTable:
    """Follows some runs; `update` reads their folders again."""

    runs: Mapping[str, tuple[Path, int | None]]
    """The folder and the number of steps of each run; None where the length is given in epochs."""
    console: Console = field(default_factory=lambda: open_console(stderr=True, soft_wrap=False, markup=True))
    _began: dict[str, tuple[float, int]] = field(default_factory=dict)
    """When each run was first seen active, and at which step."""
    _printed: dict[str, str] = field(default_factory=dict)
    _last_line: float = 0.0
    _live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[ProgressTable]:
        if not self.console.is_terminal:
            yield self
            return
        with Live(console=self.console, refresh_per_second=2) as self._live:
            yield self
        self._live = None

    def update(self, active: set[str]) -> None:
        """Show the progress of all runs; `active` are those that a worker trains now."""
        progress = {name: self.read(name, name in active) for name in self.runs}
        if self._live is not None:
            self._live.update(draw(progress))
        else:
            self._print(progress)

    def read(self, name: str, active: bool) -> RunProgress:
        """The progress of one run, from its folder."""
        path, steps = self.runs[name]
        folder = RunFolder(path)
        status = folder.status()
        last: dict[str, Any] = {}
        for line in folder.metrics.read():
            last |= line
        state = status.state if status else "waiting"
        if active:
            state = "running"
        elif state == "running":
            state = "waiting"  # it was killed, and is not resumed yet
        step = max(last.get("step", 0), status.step if status else 0)
        steps = steps or (status.planned_steps if status else None) or 1
        losses = (_number(last, key) for key in ("nll", "valid_nll", "tokens_per_second"))
        found = RunProgress(state, step, max(steps, step), *losses)
        if active:
            began, first = self._began.setdefault(name, (time.monotonic(), step))
            done = step - first
            found.seconds_left = (time.monotonic() - began) / done * (found.steps - step) if done else math.nan
        return found

    def _print(self, progress: Mapping[str, RunProgress]) -> None:
        """In a log: a change of state at once, the steps of active runs every half minute."""
        for name, found in progress.items():
            if found.state != self._printed.get(name, "waiting"):
                self._printed[name] = found.state
                self.console.print(f"{name}: {found.state}, step {found.step:,}", soft_wrap=True)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            active = [
                f"{name} {found.step:,}/{found.steps:,}" for name, found in progress.items() if found.seconds_left > 0
            ]
            if active:
                self.console.print("  ".join(active), soft_wrap=True)


def draw(progress: Mapping[str, RunProgress]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", style="cyan", no_wrap=True)
    table.add_column("progress", width=20)
    for heading in ("step", "loss", "valid", "tok/s", "left"):
        table.add_column(heading, justify="right")
    table.add_column("status")
    for name, found in progress.items():
        cells = [f"{found.step:,}", *(_show(value, "{:.3f}") for value in (found.loss, found.validation_loss))]
        cells += [_show(found.tokens_per_second, "{:,.0f}"), _show_time(found.seconds_left)]
        bar = ProgressBar(found.steps, found.step, width=20)
        table.add_row(name, bar, *cells, STATES.get(found.state, found.state))
    return table


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    return math.nan if value is None else float(value)


def _show(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


def _show_time(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
