"""One table for all runs of a comparison while it goes on: progress, loss, speed, time left, status.

It is read from the run folders alone. Where standard error is no terminal, a line for every run that ends.
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

SECONDS_BETWEEN_LINES = 30.0


@dataclass
class Glimpse:
    """How a run stands at a moment."""

    state: str = "waiting"
    step: int = 0
    steps: int = 1
    loss: float = math.nan
    valid: float = math.nan
    speed: float = math.nan
    left: float = math.nan
    """Seconds."""


@dataclass
class Board:
    """Follows some runs; `look` reads the folders again."""

    runs: Mapping[str, tuple[Path, int]]
    """The folder and the number of steps of each run."""
    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    _began: dict[str, tuple[float, int]] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _last_line: float = 0.0
    _live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[Board]:
        if not self.console.is_terminal:
            yield self
            return
        with Live(console=self.console, refresh_per_second=2) as self._live:
            yield self
        self._live = None

    def look(self, active: set[str]) -> None:
        """Show how all stand, `active` those that a worker has."""
        glimpses = {name: self.glimpse(name, name in active) for name in self.runs}
        if self._live is not None:
            self._live.update(draw(glimpses))
        else:
            self._print(glimpses)

    def glimpse(self, name: str, active: bool) -> Glimpse:
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
            state = "waiting"  # killed before, and not yet taken up again
        step = max(last.get("step", 0), status.step if status else 0)
        found = Glimpse(state, step, max(steps, step, 1), *(_number(last, key) for key in ("nll", "valid_nll")))
        found.speed = _number(last, "tokens_per_second")
        if active:
            began, first = self._began.setdefault(name, (time.monotonic(), step))
            done = step - first
            found.left = (time.monotonic() - began) / done * (found.steps - step) if done else math.nan
        return found

    def _print(self, glimpses: Mapping[str, Glimpse]) -> None:
        """In a log: a change of state at once, the rest now and then."""
        for name, found in glimpses.items():
            if found.state != self._told.get(name, "waiting"):
                self._told[name] = found.state
                self.console.print(f"{name}: {found.state}, step {found.step:,}", soft_wrap=True)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            active = [f"{name} {found.step:,}/{found.steps:,}" for name, found in glimpses.items() if found.left > 0]
            if active:
                self.console.print("  ".join(active), soft_wrap=True)


def draw(glimpses: Mapping[str, Glimpse]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", style="cyan", no_wrap=True)
    table.add_column("progress", width=20)
    for heading in ("step", "loss", "valid", "tok/s", "left"):
        table.add_column(heading, justify="right")
    table.add_column("status")
    for name, found in glimpses.items():
        cells = [f"{found.step:,}", *(_show(value, "{:.3f}") for value in (found.loss, found.valid))]
        cells += [_show(found.speed, "{:,.0f}"), _show_time(found.left)]
        table.add_row(
            name, ProgressBar(found.steps, found.step, width=20), *cells, _STATES.get(found.state, found.state)
        )
    return table


_STATES = {"failed": "[red]failed[/]", "finished": "[green]finished[/]", "waiting": "[dim]waiting[/]"}


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    return math.nan if value is None else float(value)


def _show(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


def _show_time(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
