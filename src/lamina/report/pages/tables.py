"""The numbers behind pictures, as tables of text; long ones are thinned out evenly, and say so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lamina.diagnosis.results import Grid, Measure
from lamina.formatting import short, with_spread
from lamina.report.figures.curves import Line, Panel
from lamina.report.figures.maps import array, first_column

MOST_ROWS, MOST_CELLS = 60, 20
Item = TypeVar("Item")


@dataclass(frozen=True)
class Table:
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first cell of each heads its row."""
    remark: str = ""


def table_of_panel(panel: Panel, x_label: str) -> Table:
    """A row per place, a column per line."""
    places = sorted({x for line in panel.lines for x in line.series.x})
    kept = evenly(places, MOST_ROWS)
    columns = [_cells(line) for line in panel.lines]
    rows = tuple((short(x, 6), *(column.get(x, "–") for column in columns)) for x in kept)
    remark = f"{len(kept)} of {len(places)} rows." if len(kept) < len(places) else ""
    return Table(panel.title, (x_label or "x", *(line.name for line in panel.lines)), rows, remark)


def table_of_map(title: str, grid: Grid) -> Table:
    values = array(grid)
    rows, columns = (evenly(range(length), MOST_CELLS) for length in values.shape)
    start = first_column(values)
    body = tuple(
        (str(row + 1), *("" if math.isnan(values[row, at]) else short(float(values[row, at]), 2) for at in columns))
        for row in rows
    )
    whole = (len(rows), len(columns)) == values.shape
    remark = "" if whole else f"{len(rows)} × {len(columns)} of {values.shape[0]} × {values.shape[1]} cells."
    corner = f"{grid.rows} ↓ {grid.columns} →"
    return Table(title, (corner, *(str(column + start) for column in columns)), body, remark)


def table_of_facts(measures: Mapping[str, Measure]) -> Table | None:
    """A row per fact, a column per model."""
    names = list(dict.fromkeys(name for each in measures.values() for name in each.facts))
    if not names:
        return None
    rows = tuple((name, *(_fact(each, name) for each in measures.values())) for name in names)
    return Table("Single numbers", ("", *measures) if len(measures) > 1 else ("", "value"), rows)


def _fact(measure: Measure, name: str) -> str:
    return with_spread(measure.facts[name], measure.fact_spreads.get(name)) if name in measure.facts else "–"


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _cells(line: Line) -> dict[float, str]:
    spread: Sequence[float | None] = line.series.spread or [None] * len(line.series.x)
    triples = zip(line.series.x, line.series.y, spread, strict=True)
    return {x: with_spread(y, deviation) for x, y, deviation in triples}
