"""Matrices as maps: one picture each, all with the same colour scale, and one colour bar for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from lamina.diagnosis.measurement import Grid
from lamina.formatting import printable, short
from lamina.report.figures.svg import canvas, drawing, inline

if TYPE_CHECKING:
    from matplotlib.colors import Normalize

WIDTH = 2.3  # inches
COLOURS = "cividis"  # readable for colour-blind readers; bright always means large
MOST_DECADES = 8
"""The largest range of a logarithmic map, below the largest value: smaller values have the darkest colour."""


def draw_maps(grids: Sequence[tuple[str, Grid]], prefix: str) -> list[Markup]:
    """A picture of every grid, given with its title, and last the colour bar they share."""
    from matplotlib.cm import ScalarMappable

    norm = _norm([grid for _, grid in grids])
    pictures = []
    with drawing():
        for at, (title, grid) in enumerate(grids):
            values = to_array(grid)
            figure, axes = canvas(WIDTH, WIDTH, left=0.5, below=0.42)
            axes.imshow(values, norm=norm, cmap=COLOURS, interpolation="none", aspect="auto")
            axes.set(xlabel=printable(grid.columns, 40), ylabel=printable(grid.rows, 40))
            axes.set_xticks(*_ticks(column_numbers(grid, values.shape[1])))
            axes.set_yticks(*_ticks(range(grid.first_row, grid.first_row + values.shape[0])))
            axes.spines[:].set_visible(False)
            pictures.append(inline(figure, f"{prefix}-{at}", describe(title, values)))
        figure, axes = canvas(WIDTH, 0.4, left=0.25, below=0.24, right=0.25)
        bar = figure.colorbar(ScalarMappable(norm, COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        ends = np.asarray(norm.inverse(np.array([0.0, 0.5, 1.0])), dtype=float).tolist()
        bar.set_ticks(ends, labels=[short(each, 2) for each in ends])
        bar.minorticks_off()
        pictures.append(inline(figure, f"{prefix}-bar", f"colours from {short(ends[0], 2)} to {short(ends[2], 2)}"))
    return pictures


def _norm(grids: Sequence[Grid]) -> Normalize:
    """From values to colours: by their logarithms if all grids ask for it and have a value above zero."""
    from matplotlib.colors import LogNorm, Normalize

    found = np.concatenate([to_array(grid).ravel() for grid in grids])
    above = found[np.isfinite(found) & (found > 0)]
    if above.size and all(grid.logarithmic for grid in grids):
        low, high = float(above.min()), float(above.max())
        low = max(low, high * 10.0**-MOST_DECADES)
        return LogNorm(low, high if high > low else 10 * low, clip=True)
    return Normalize(*colour_range(grids))


def column_numbers(grid: Grid, columns: int) -> Sequence[int]:
    """The numbers of the columns: steps, layers."""
    return grid.column_numbers or range(grid.first_column, grid.first_column + columns)


def to_array(grid: Grid) -> np.ndarray:
    """The values as one matrix; rows may be of different lengths, and missing values are NaN."""
    longest = max((len(row) for row in grid.values), default=0)
    return np.array([[*row, *[np.nan] * (longest - len(row))] for row in grid.values]).reshape(
        len(grid.values), longest
    )


def colour_range(grids: Iterable[Grid]) -> tuple[float, float]:
    """The values of the first and last colour: from zero where nothing is below, to one where values come near it."""
    found = np.concatenate([to_array(grid).ravel() for grid in grids])
    found = found[np.isfinite(found)]
    if not found.size:
        return 0.0, 1.0
    low, high = float(found.min()), float(found.max())
    low, high = min(low, 0.0), 1.0 if 0.7 < high <= 1 else high
    return (low, high) if high > low else (low, low + 1.0)


def describe(title: str, values: np.ndarray) -> str:
    """The map in words, for screen readers."""
    finite = values[np.isfinite(values)]
    rows, columns = values.shape
    if not finite.size:
        return f"{title}: a map of {rows} by {columns} without a finite value."
    return f"{title}: a map of {rows} by {columns}, from {short(finite.min())} to {short(finite.max())}."


def _ticks(numbers: Sequence[int]) -> tuple[list[int], list[str]]:
    """At most eight positions, evenly spaced, with the first and the last, and their numbers."""
    length, longest = len(numbers), max(map(len, map(str, numbers)), default=1)
    number = length if length <= 8 and longest < 3 else 6 if longest < 4 else 4
    places = sorted({round(place) for place in np.linspace(0, length - 1, min(length, number))}) if length else []
    return places, [f"{numbers[place]:,}" for place in places]
