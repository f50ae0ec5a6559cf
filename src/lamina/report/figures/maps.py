"""Matrices as maps: one picture each, all with the same colour scale, and one colour bar for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from lamina.diagnosis.measurement import Grid
from lamina.formatting import printable, short
from lamina.report.figures.svg import canvas, drawing, inline

WIDTH = 2.3  # inches
COLOURS = "cividis"  # readable for colour-blind readers; bright always means large


def draw_maps(grids: Sequence[tuple[str, Grid]], prefix: str) -> list[Markup]:
    """A picture of every grid, given with its title, and last the colour bar they share."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    low, high = colour_range(grid for _, grid in grids)
    norm = Normalize(low, high)
    pictures = []
    with drawing():
        for at, (title, grid) in enumerate(grids):
            values = to_array(grid)
            figure, axes = canvas(WIDTH, WIDTH, left=0.5, below=0.42)
            axes.imshow(values, norm=norm, cmap=COLOURS, interpolation="none", aspect="auto")
            axes.set(xlabel=printable(grid.columns, 40), ylabel=printable(grid.rows, 40))
            axes.set_xticks(*_ticks(values.shape[1], grid.first_column))
            axes.set_yticks(*_ticks(values.shape[0], grid.first_row))
            axes.spines[:].set_visible(False)
            pictures.append(inline(figure, f"{prefix}-{at}", describe(title, values)))
        figure, axes = canvas(WIDTH, 0.4, left=0.25, below=0.24, right=0.25)
        bar = figure.colorbar(ScalarMappable(norm, COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        bar.set_ticks([low, (low + high) / 2, high], labels=[short(each, 2) for each in (low, (low + high) / 2, high)])
        pictures.append(inline(figure, f"{prefix}-bar", f"colours from {short(low, 2)} to {short(high, 2)}"))
    return pictures


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


def _ticks(length: int, first: int) -> tuple[list[int], list[str]]:
    """At most eight positions, evenly spaced, with the first and the last, and their numbers."""
    number = length if length <= 8 else 6
    places = sorted({round(place) for place in np.linspace(0, length - 1, number)}) if length else []
    return places, [str(place + first) for place in places]
