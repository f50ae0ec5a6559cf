"""Markdown that is readable in a terminal too: all text is escaped unless it is of the class `Markdown`.

A curve is a row of bars, ▁▂▄█, and a map a block of shaded cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from lamina.formatting import printable, short
from lamina.report.figures.maps import colour_range, to_array
from lamina.report.figures.panels import Curve
from lamina.report.figures.section import TitledGrid
from lamina.report.tables import Table, thin_out

BARS, SHADES = "▁▂▃▄▅▆▇█", "·░▒▓█"
MOST_BARS, MOST_SHADES = 24, 18


class Markdown(str):
    """Text that is Markdown already and is not escaped."""


def escape(value: object) -> Markdown:
    """Any text on one line, with the characters escaped that Markdown or HTML would interpret."""
    if isinstance(value, Markdown):
        return value
    text = printable(str(value), limit=2000)
    text = re.sub(r"([\\`*\[\]<>|&~])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # inside a word it has no effect
    text = re.sub(r"^(\d+)(?=[.)]\s)", r"\1\\", text)  # a backslash before a digit would be shown
    return Markdown(re.sub(r"^(#|[-+](?=\s))", r"\\\1", text))


def code(text: str) -> Markdown:
    """A fenced block of code, whatever backticks the text holds."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return Markdown(f"{fence}text\n{text}\n{fence}")


def inline_code(text: str) -> Markdown:
    """Code within a line, whatever backticks the text holds."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return Markdown(f"{ticks}{space}{printable(text, limit=2000)}{space}{ticks}")


def table(shown: Table) -> Markdown:
    """The first column is left-aligned, the others right-aligned; padded, so that a terminal shows columns too."""
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


def curve_table(curves: Sequence[Curve], log: bool) -> Markdown:
    """A row for each curve: its shape, and the numbers at its ends."""
    rows = []
    for curve in curves:
        values = curve.series.y
        finite = [y for y in values if math.isfinite(y)]
        ends = (values[0], values[-1]) if values else (math.nan, math.nan)
        extremes = (min(finite), max(finite)) if finite else (math.nan, math.nan)
        rows.append((curve.name, bars(values, log), *map(short, ends + extremes)))
    return table(Table("", ("", "shape", "first", "last", "smallest", "largest"), tuple(rows)))


def bars(values: Sequence[float], log: bool) -> str:
    """The shape of a curve in a few characters; `∞`, `?` and `·` stand for values that have no bar."""
    kept = np.array(thin_out(values, MOST_BARS), dtype=float)
    shown = np.isfinite(kept) & ((kept > 0) if log else True)
    heights = np.log(kept, where=shown, out=np.full_like(kept, np.nan)) if log else kept
    if not shown.any():
        return "?" * len(kept)
    low, high = heights[shown].min(), heights[shown].max()
    shares = (heights - low) / (high - low) if high > low else np.full_like(kept, 0.5)
    cells = zip(shares, shown, kept, strict=True)
    return "".join(BARS[_level(share, len(BARS))] if there else _sign(value) for share, there, value in cells)


def shaded_maps(maps: Sequence[TitledGrid]) -> list[tuple[str, Markdown]]:
    """Each map in five shades, all on the same scale, with its title."""
    if not maps:
        return []
    low, high = colour_range(grid for _, grid in maps)
    return [(title, code(_shaded((to_array(grid) - low) / (high - low)))) for title, grid in maps]


def _shaded(values: np.ndarray) -> str:
    rows, columns = (thin_out(range(length), MOST_SHADES) for length in values.shape)
    lines = []
    for row in values[rows][:, columns]:
        lines.append(
            "".join("  " if math.isnan(cell) else 2 * SHADES[_level(cell, len(SHADES))] for cell in row).rstrip()
        )
    return "\n".join(lines)


def _level(share: float, levels: int) -> int:
    return round(min(max(share, 0.0), 1.0) * (levels - 1))


def _sign(value: float) -> str:
    return "∞" if value == math.inf else "·" if math.isfinite(value) else "?"
