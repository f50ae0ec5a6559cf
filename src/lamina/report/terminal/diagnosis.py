"""A diagnosis on a terminal: the verdicts, then the numbers of each stack, then where the page is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lamina.diagnosis.results import Diagnosis, Measure, Series
from lamina.formatting import duration, short
from lamina.report.pages.diagnosis import SIGNS, Looked, readable, told_apart

COLOURS = {"failure": "red", "warning": "yellow", "fine": "green"}


def show_diagnoses(diagnoses: Sequence[Diagnosis], file: Path) -> None:
    """All of them, one below the other; `file` is the page that shows the pictures."""
    console = Console(highlight=False, soft_wrap=True)
    readables = [readable(each) for each in diagnoses]
    for name, diagnosis in zip(told_apart(readables), readables, strict=True):
        _show(console, Looked(name, diagnosis))
    took = duration(sum(each.seconds for each in diagnoses))
    console.print(f"Took {took}. Pictures and all numbers: [bold]{escape(str(file))}[/]")


def _show(console: Console, looked: Looked) -> None:
    diagnosis = looked.diagnosis
    console.print(f"[bold]{escape(looked.name)}[/]: {escape(diagnosis.model)}; {looked.circumstances}")
    for verdict in looked.verdicts:
        colour = COLOURS[verdict.severity]
        console.print(f"[{colour}]{SIGNS[verdict.severity]}[/] {escape(verdict.sentence)}")
        if verdict.advice:
            console.print(f"  → {escape(verdict.advice)}")
    console.print()
    console.print(_table(diagnosis.measures))
    for skipped in diagnosis.skipped:
        console.print(f"not measured: {skipped.key.replace('-', ' ')}: {escape(skipped.reason)}", style="dim")
    for note in diagnosis.notes:
        console.print(f"note: {escape(note)}", style="dim")
    console.print()


def _table(measures: Sequence[Measure]) -> Table:
    """The ends of the main lines of every measure."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("measured", style="cyan", no_wrap=True)
    table.add_column("of")
    for heading in ("first", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    for measure in measures:
        for number, series in enumerate(_main_lines(measure)):
            name = "" if number else measure.key.replace("-", " ")
            table.add_row(escape(name), escape(series.label), short(series.y[0]), short(series.y[-1]))
    return table


def _main_lines(measure: Measure) -> list[Series]:
    """Those that bear the name of a stack alone; where none does, the last of each stack, nearest to its output."""
    lines = [each for each in measure.measured if each.y]
    alone = [each for each in lines if " " not in each.label]
    return alone or list({each.label.split()[0]: each for each in lines}.values())
