"""A diagnosis on a terminal: the findings, then the numbers of each stack, then where the page is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lamina.diagnosis.measurement import Location, Measurement, Series
from lamina.diagnosis.results import Diagnosis
from lamina.formatting import duration, printable, short
from lamina.report.findings import NamedDiagnosis, name_diagnoses
from lamina.report.labels import check_name, name_of
from lamina.terminal import open_console

COLOURS = {"failure": "red", "warning": "yellow", "fine": "green"}


def show_diagnoses(diagnoses: Sequence[Diagnosis], file: Path, left_out: Sequence[Path] = ()) -> None:
    """Print all diagnoses; `file` is the page with the figures, `left_out` are files that held no diagnosis."""
    console = open_console(markup=True)
    for model in name_diagnoses(diagnoses):
        _show(console, model)
    if left_out:
        names = ", ".join(printable(str(each), limit=1000) for each in left_out)
        console.print(f"Left out, as files without a diagnosis: {escape(names)}")
    seconds = sum(each.seconds for each in diagnoses)
    took = f"Took {duration(seconds)}. " if seconds else ""
    console.print(f"{took}Figures and all numbers: [bold]{escape(str(file))}[/]")


def _show(console: Console, model: NamedDiagnosis) -> None:
    console.print(f"[bold]{escape(model.name)}[/]: {escape(model.model)}; {model.conditions}")
    for finding in model.findings:
        console.print(f"[{COLOURS[finding.severity]}]{finding.sign}[/] {escape(finding.sentence)}")
        if finding.remedies:
            console.print(f"  → {escape('; or '.join(map(str, finding.remedies)))}")
    for missing in model.not_checked:
        console.print(f"– not checked: {escape(missing.names)}: {escape(missing.reason)}", style="dim")
    console.print()
    console.print(_table(model.diagnosis.measurements))
    for unmeasured in model.not_measured:
        names = ", ".join(map(check_name, unmeasured.keys))
        console.print(f"not measured: {escape(names)}: {escape(unmeasured.reason)}", style="dim")
    for note in model.diagnosis.notes:
        console.print(f"note: {escape(note)}", style="dim")
    console.print()


def _table(measurements: Sequence[Measurement]) -> Table:
    """The first and last value of the main line of every stack."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("measured", style="cyan", no_wrap=True)
    table.add_column("of")
    for heading in ("first", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    for measurement in measurements:
        for number, series in enumerate(_main_lines(measurement)):
            name = "" if number else check_name(measurement.key)
            table.add_row(escape(name), escape(name_of(series) or "model"), short(series.y[0]), short(series.y[-1]))
    return table


def _main_lines(measurement: Measurement) -> list[Series]:
    """For each stack, its first line about the whole stack; without one, its last line, nearest to the output."""
    by_stack: dict[str | None, list[Series]] = {}
    for series in measurement.measured:
        if series.y:
            by_stack.setdefault(series.location.stack, []).append(series)
    return [
        next((each for each in lines if each.location == Location(stack=stack)), lines[-1])
        for stack, lines in by_stack.items()
    ]
