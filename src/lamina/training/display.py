"""What a person sees while a run goes on: a bar on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


class Display:
    """On a terminal a bar with loss, perplexity, rate, speed and time left; elsewhere a line every ten seconds."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._last_line = 0.0
        self._total = 0

    @contextmanager
    def training(self, done: int, total: int) -> Iterator[None]:
        self._total = total
        if not self.console.is_terminal:
            yield
            return
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True) as self._bar:
            self._bar.add_task("", total=total, completed=done)
            yield
        self._bar = None

    def stepped(self, step: int, values: Mapping[str, Any]) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=step, description=_describe(values))
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.console.print(f"step {step:,}/{self._total:,}  {_describe(values)}")

    def validated(self, step: int, values: Mapping[str, float]) -> None:
        perplexity = math.exp(min(700.0, values["nll"]))
        others = "".join(
            f"  {name} {value:.2f}" for name, value in values.items() if name not in ("loss", "nll", "perplexity")
        )
        self.console.print(f"step {step:,}  validation nll {values['nll']:.4f}  perplexity {perplexity:.2f}{others}")

    def note(self, text: str) -> None:
        self.console.print(text, markup=False)


def _describe(values: Mapping[str, Any]) -> str:
    perplexity = math.exp(min(700.0, values["nll"]))
    return (
        f"loss {values['loss']:.3f}  ppl {perplexity:.1f}  rate {values['rate']:.2e}  "
        f"{values['tokens_per_second']:,.0f} tok/s"
    )
