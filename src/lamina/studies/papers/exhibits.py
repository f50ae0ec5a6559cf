"""Tables and panels that several studies share: cells with spreads, failed runs, and losses over training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lamina.data.synthetic import NEWS_YEARS
from lamina.formatting import short
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import LineStyle, scheme_style
from lamina.report.tables import Table
from lamina.studies.result_table import Label, Missing, ResultTable
from lamina.studies.samples import Sample, SampleSeed

CurveFunction = Callable[[Sequence[float], Sequence[float]], float]
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


def scheme_curves(schemes: Sequence[str], **labels: Label) -> dict[str, tuple[Condition, LineStyle]]:
    """The conditions that differ in the scheme, each in its colour."""
    return {scheme: ({"scheme": scheme, **labels}, scheme_style(scheme)) for scheme in schemes}


def by_year(results: ResultTable, caption: str, depths: Sequence[str], schemes: Sequence[str]) -> Table:
    """BLEU of every scheme and depth on the seven test years, and its average, as in the papers' tables."""
    rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for depth in depths for scheme in schemes}
    columns = {str(year): ("test bleu", {"set": year}) for year in NEWS_YEARS}
    table = score_table(results, caption, rows, columns, "scheme, layers")
    averages = [_average_cell(results, labels) for labels in rows.values()]
    body = tuple((*row, average) for row, average in zip(table.rows, averages, strict=True))
    return Table(caption, (*table.headings, "mean"), body, table.remark)


def average_bleu(results: ResultTable, scheme: str, depth: str, **labels: Label) -> Sample:
    """The mean of BLEU over the test years."""
    return results.reduce(mean_of, "set", "test bleu", scheme=scheme, depth=depth, **labels)


def year_bleu(results: ResultTable, scheme: str, depth: str) -> dict[Label, Sample]:
    """BLEU by test year."""
    return results.along("set", "test bleu", scheme=scheme, depth=depth)


def curve_minimum(results: ResultTable, **labels: Label) -> tuple[Sample, Sample]:
    """Where the minimum of the validation loss lies, as a share of training, and how far the last value is above it."""
    return _of_curves(results, labels, _place_of_minimum), _of_curves(results, labels, lambda _, y: y[-1] - min(y))


def reaches(results: ResultTable, labels: Condition, loss: Sample) -> Sample:
    """The share of training after which the validation loss is at most `loss`, seed by seed; 2 if it never is."""
    found: dict[SampleSeed, float | None] = {}
    for seed, bound in loss.by_seed.items():
        points = [
            (float(row.labels["step"]), row.value)
            for row in results.where("validation loss by step", **labels)
            if row.seed == seed and row.value is not None
        ]
        if points and bound is not None:
            steps = [step for step, value in points if value <= bound]
            found[seed] = min(steps) / max(step for step, _ in points) if steps else 2.0
    if not found:
        raise Missing("no validation losses by step")
    return Sample(found)


def _of_curves(results: ResultTable, labels: Condition, function: CurveFunction) -> Sample:
    """A function of the steps and validation losses of each seed."""
    rows = results.where("validation loss by step", **labels)
    if not rows:
        raise Missing("no validation losses by step")
    found: dict[SampleSeed, float | None] = {}
    for seed in dict.fromkeys(row.seed for row in rows):
        points = sorted((float(row.labels["step"]), row.value or 0.0) for row in rows if row.seed == seed)
        found[seed] = function([step for step, _ in points], [loss for _, loss in points])
    return Sample(found)


def _place_of_minimum(steps: Sequence[float], losses: Sequence[float]) -> float:
    return steps[losses.index(min(losses))] / steps[-1]


def _average_cell(results: ResultTable, labels: Condition) -> str:
    try:
        return cell(results.reduce(mean_of, "set", "test bleu", **labels))
    except Missing:
        return "–"


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cell_of(results: ResultTable, quantity: str, labels: Condition) -> str:
    try:
        return cell(results.sample(quantity, **labels))
    except Missing:
        return "–"
