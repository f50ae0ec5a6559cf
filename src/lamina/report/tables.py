"""The numbers behind pictures, as tables of text; long tables are thinned out evenly, and say so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lamina.diagnosis.measurement import Fact, Grid, Measurement
from lamina.formatting import short, with_spread
from lamina.report.figures.maps import column_numbers, to_array
from lamina.report.figures.panels import Curve, Panel
from lamina.report.labels import fact_name

MOST_ROWS, MOST_CELLS = 60, 20
Item = TypeVar("Item")


@dataclass(frozen=True)
class Table:
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first cell of each row is its heading."""
    remark: str = ""


def panel_table(panel: Panel, x_label: str) -> Table:
    """A row for each x, a column for each curve."""
    places = sorted({x for curve in panel.curves for x in curve.series.x})
    kept = thin_out(places, MOST_ROWS)
    columns = [_cells(curve) for curve in panel.curves]
    rows = tuple((short(x, 6), *(column.get(x, "–") for column in columns)) for x in kept)
    remark = f"{len(kept)} of {len(places)} rows." if len(kept) < len(places) else ""
    return Table(panel.title, (x_label or "x", *(curve.name for curve in panel.curves)), rows, remark)


def map_table(title: str, grid: Grid) -> Table:
    values = to_array(grid)
    rows, columns = (thin_out(range(length), MOST_CELLS) for length in values.shape)
    body = tuple(
        (
            str(row + grid.first_row),
            *("" if math.isnan(values[row, at]) else short(float(values[row, at]), 2) for at in columns),
        )
        for row in rows
    )
    complete = (len(rows), len(columns)) == values.shape
    remark = "" if complete else f"{len(rows)} × {len(columns)} of {values.shape[0]} × {values.shape[1]} cells."
    corner = f"{grid.rows} ↓ {grid.columns} →"
    numbers = column_numbers(grid, values.shape[1])
    return Table(title, (corner, *(f"{numbers[column]:,}" for column in columns)), body, remark)


def fact_table(measurements: Mapping[str, Measurement], *, alone: bool) -> Table | None:
    """A row for each fact, a column for each model; `alone` says that the page has only one."""
    by_model = [{fact.identity: fact for fact in each.facts} for each in measurements.values()]
    facts = {identity: fact for each in by_model for identity, fact in each.items()}
    if not facts:
        return None
    rows = tuple((fact_name(facts[identity]), *(_cell(each.get(identity)) for each in by_model)) for identity in facts)
    return Table("Single numbers", ("", "value") if alone else ("", *measurements), rows)


def _cell(fact: Fact | None) -> str:
    return "–" if fact is None else with_spread(fact.value, fact.spread)


def _cells(curve: Curve) -> dict[float, str]:
    """The text of every value, by x."""
    spread: Sequence[float | None] = curve.series.spread or [None] * len(curve.series.x)
    return {x: with_spread(y, each) for x, y, each in zip(curve.series.x, curve.series.y, spread, strict=True)}


def thin_out(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]
