"""Tables and panels that several studies share: cells with spreads, failed runs, and losses over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamina.formatting import short
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import LineStyle
from lamina.report.tables import Table
from lamina.studies.result_table import Label, Missing, ResultTable
from lamina.studies.samples import Sample

Condition = Mapping[str, Label]
"""The labels of a condition."""


def cell(sample: Sample) -> str:
    """`12.3 ± 0.4` (95 % interval), `failed`, or `12.3 ± 0.4, 1 of 3 failed`."""
    if not sample.values:
        return "failed"
    interval = sample.interval()
    text = short(sample.mean)
    if len(sample.values) > 1:
        text += f" ± {short((interval.high - interval.low) / 2, 2)}"
    return f"{text}, {sample.num_failed} of {len(sample.by_seed)} failed" if sample.num_failed else text


def score_table(
    results: ResultTable,
    caption: str,
    rows: Mapping[str, Condition],
    columns: Mapping[str, tuple[str, Condition]],
    corner: str = "",
) -> Table:
    """A row for each condition, a column for each quantity with further labels; – where nothing was measured."""
    return Table(
        caption,
        (corner, *columns),
        tuple(
            (name, *(_cell_of(results, quantity, {**row, **more}) for quantity, more in columns.values()))
            for name, row in rows.items()
        ),
        remark="Means over seeds ± half of the 95 % interval.",
    )


def loss_panel(
    results: ResultTable,
    title: str,
    curves: Mapping[str, tuple[Condition, LineStyle]],
    quantity: str = "validation loss by step",
) -> Panel:
    """The losses over training of several conditions; one that was not measured is left out."""
    found = [
        Curve(name, results.curve("step", quantity, **labels), style)
        for name, (labels, style) in curves.items()
        if results.where(quantity, **labels)
    ]
    return Panel(title, tuple(found))


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cell_of(results: ResultTable, quantity: str, labels: Condition) -> str:
    try:
        return cell(results.sample(quantity, **labels))
    except Missing:
        return "–"
