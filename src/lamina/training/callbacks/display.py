"""Progress of a run on standard error: a bar on a terminal, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lamina.formatting import duration
from lamina.generate.scoring import perplexity
from lamina.tasks.metric_tables import detail_metrics, filled_tables
from lamina.terminal import open_console
from lamina.training.callbacks.base import Callback

if TYPE_CHECKING:
    from lamina.training.loop import Training

SECONDS_BETWEEN_LINES = 10.0


class Display(Callback):
    """Shows a progress bar with loss, perplexity, learning rate, speed and time left on a terminal.

    If standard error is not a terminal, it prints a line every ten seconds instead.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = open_console(stderr=True, quiet=quiet)
        self._bar: Progress | None = None
        self._last_line = 0.0
        self._start = (0.0, 0)  # time and step

    def note(self, text: str) -> None:
        """Print a message as it is."""
        self.console.print(text)

    def on_start(self, training: Training) -> None:
        self._start = time.monotonic(), training.step
        if not self.console.quiet:
            padding = training.batches.attention_padding()
            self.note(f"padding: {padding:.1%} of the attention scores, nothing elsewhere")
        if self.console.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._bar.add_task("", total=_total_steps(training), completed=training.step)
            self._bar.start()

    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        if self._bar is not None:
            total, text = _total_steps(training), _describe(training, values)
            self._bar.update(self._bar.task_ids[0], total=total, completed=training.step, description=text)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            of = f"{training.step:,}/{_total_steps(training):,}"
            self.console.print(f"step {of}  {_describe(training, values)}{self._time_left(training)}")

    def _time_left(self, training: Training) -> str:
        """At the mean speed so far, validations and checkpoints included; empty before the second step."""
        start, first = self._start
        done, left = training.step - first, _total_steps(training) - training.step
        return f"  {duration(left * (time.monotonic() - start) / done)} left" if done > 1 and left > 0 else ""

    def on_validation(self, training: Training, values: Mapping[str, float]) -> None:
        tables = filled_tables(training.task.metric_tables(), values)
        apart = {"loss", "nll", "perplexity", *detail_metrics(tables)}
        others = "".join(f"  {name} {value:.2f}" for name, value in values.items() if name not in apart)
        nll = values["nll"]
        text = f"validation nll {nll:.4f}  perplexity {perplexity(nll):.2f}{others}"
        self.console.print(f"step {training.step:,}  {_epochs(training)}  {text}")
        for table in tables:
            for at, column in enumerate(table.columns):
                cells = [(row.name, row.read(values)[at]) for row in table.rows]
                shown = "".join(f"  {name} {value:.2f}" for name, value in cells if value is not None)
                if shown:
                    self.console.print(f"  {column}:{shown}")

    def on_end(self, training: Training) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _total_steps(training: Training) -> int:
    return training.position.total_steps(training.config.train)


def _epochs(training: Training) -> str:
    """`epoch 2.35`, the number of epochs done, with `/15` where the config says how many there are."""
    epochs = training.config.train.epochs
    return f"epoch {training.position.epochs:.2f}" + (f"/{epochs}" if epochs else "")


def _describe(training: Training, values: Mapping[str, Any]) -> str:
    return (
        f"{_epochs(training)}  loss {values['loss']:.3f}  ppl {perplexity(values['nll']):.1f}  "
        f"lr {values['learning_rate']:.2e}  {values['tokens_per_second']:,.0f} tok/s"
    )
