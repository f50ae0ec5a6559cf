"""Markdown that stays readable in a terminal: everything escaped unless it is marked as Markdown already.

Pictures become a row of bars for a line, ▁▂▄█, and shades for a map, so that a pull request shows the shape too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from lamina.diagnosis.results import Grid
from lamina.formatting import short
from lamina.report.figures.curves import Line
from lamina.report.figures.maps import array, span
from lamina.report.figures.svg import printable
from lamina.report.pages.tables import Table, evenly

BARS, SHADES = "▁▂▃▄▅▆▇█", "·░▒▓█"
MOST_BARS, MOST_SHADES = 24, 18


class Markdown(str):
    """Text that is Markdown on purpose."""


def escape(value: object) -> Markdown:
    """Any text as text: on one line, no signs that Markdown or HTML would act on."""
    if isinstance(value, Markdown):
        return value
    text = printable(str(value), limit=2000)
    text = re.sub(r"([\\`*\[\]<>|&~])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # inside a word it does nothing
    return Markdown(re.sub(r"^(#|\d+(?=[.)]\s)|[-+](?=\s))", r"\\\1", text))


def code(text: str) -> Markdown:
    """A block in which nothing is Markdown, whatever backticks it holds."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return Markdown(f"{fence}text\n{text}\n{fence}")


def span_of_code(text: str) -> Markdown:
    """The same within a line."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return Markdown(f"{ticks}{space}{printable(text, limit=2000)}{space}{ticks}")


def table(shown: Table) -> Markdown:
    """The first column to the left, the others to the right; padded, so that a terminal shows columns too."""
    rows = [[escape(cell) for cell in row] for row in (shown.headings, *shown.rows)]
    widths = [max(3, *(len(row[at]) for row in rows)) for at in range(len(shown.headings))]
    lines = [
        "| "
        + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(cells))
        + " |"
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    rule = "|" + "|".join(
        ("-" * (width + 1) + ":") if at else (":" + "-" * (width + 1)) for at, width in enumerate(widths)
    )
    return Markdown("\n".join([lines[0], rule + "|", *lines[1:]]))


def table_of_lines(lines: Sequence[Line], log: bool) -> Markdown:
    """A row per line: its shape, and the numbers at its ends."""
    rows = []
    for line in lines:
        finite = [y for y in line.series.y if math.isfinite(y)]
        ends = (line.series.y[0], line.series.y[-1]) if line.series.y else (math.nan, math.nan)
        extremes = (min(finite), max(finite)) if finite else (math.nan, math.nan)
        rows.append((line.name, bars(line.series.y, log), *map(short, ends + extremes)))
    return table(Table("", ("", "shape", "first", "last", "smallest", "largest"), tuple(rows)))


def bars(values: Sequence[float], log: bool) -> str:
    """The shape of a line in a few characters; a sign for what cannot be drawn."""
    kept = np.array(evenly(values, MOST_BARS), dtype=float)
    shown = np.isfinite(kept) & ((kept > 0) if log else True)
    heights = np.log(kept, where=shown, out=np.full_like(kept, np.nan)) if log else kept
    if not shown.any():
        return "?" * len(kept)
    low, high = heights[shown].min(), heights[shown].max()
    shares = (heights - low) / (high - low) if high > low else np.full_like(kept, 0.5)
    cells = zip(shares, shown, kept, strict=True)
    return "".join(BARS[_step(share, len(BARS))] if there else _sign(value) for share, there, value in cells)


def shades(maps: Mapping[str, Sequence[tuple[str, Grid]]]) -> list[tuple[str, Markdown]]:
    """Each map in five shades under its title, all on the same scale."""
    if not maps:
        return []
    low, high = span(grid for group in maps.values() for _, grid in group)
    return [
        (f"{title}, {part}" if part else title, code(_shaded((array(grid) - low) / (high - low))))
        for part, group in maps.items()
        for title, grid in group
    ]


def _shaded(values: np.ndarray) -> str:
    rows, columns = (evenly(range(length), MOST_SHADES) for length in values.shape)
    lines = []
    for row in values[rows][:, columns]:
        lines.append(
            "".join("  " if math.isnan(cell) else 2 * SHADES[_step(cell, len(SHADES))] for cell in row).rstrip()
        )
    return "\n".join(lines)


def _step(share: float, steps: int) -> int:
    return round(min(max(share, 0.0), 1.0) * (steps - 1))


def _sign(value: float) -> str:
    return "∞" if value == math.inf else "·" if math.isfinite(value) else "?"
