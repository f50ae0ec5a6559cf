"""Matrices as maps: one picture each, all on the same colours, with one colour bar for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from lamina.diagnosis.results import Grid
from lamina.formatting import short
from lamina.report.figures.svg import canvas, drawing, inline, printable

WIDTH = 2.3  # inches
COLOURS = "cividis"  # the same to colour-blind readers, and bright always means large


def draw_maps(grids: Sequence[tuple[str, Grid]], prefix: str) -> list[Markup]:
    """A picture of every grid, in order, and last the colour bar they share."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    low, high = span(grid for _, grid in grids)
    norm = Normalize(low, high)
    pictures = []
    with drawing():
        for at, (title, grid) in enumerate(grids):
            values = array(grid)
            figure, axes = canvas(WIDTH, WIDTH, left=0.5, below=0.42)
            axes.imshow(values, norm=norm, cmap=COLOURS, interpolation="none", aspect="auto")
            axes.set(xlabel=printable(grid.columns, 40), ylabel=printable(grid.rows, 40))
            axes.set_xticks(*_ticks(values.shape[1], first_column(values)))
            axes.set_yticks(*_ticks(values.shape[0], 1))
            axes.spines[:].set_visible(False)
            pictures.append(inline(figure, f"{prefix}-{at}", describe(title, values)))
        figure, axes = canvas(WIDTH, 0.4, left=0.1, below=0.24)
        bar = figure.colorbar(ScalarMappable(norm, COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        bar.set_ticks([low, (low + high) / 2, high], labels=[short(each, 2) for each in (low, (low + high) / 2, high)])
        pictures.append(inline(figure, f"{prefix}-bar", f"colours from {short(low, 2)} to {short(high, 2)}"))
    return pictures


def array(grid: Grid) -> np.ndarray:
    """Rows may be of different lengths: what is missing is not a number."""
    longest = max((len(row) for row in grid.values), default=0)
    return np.array([[*row, *[np.nan] * (longest - len(row))] for row in grid.values]).reshape(
        len(grid.values), longest
    )


def span(grids: Iterable[Grid]) -> tuple[float, float]:
    """The ends of the colours: from zero where nothing lies below, to one where values come near it."""
    found = np.concatenate([array(grid).ravel() for grid in grids])
    found = found[np.isfinite(found)]
    if not found.size:
        return 0.0, 1.0
    low, high = float(found.min()), float(found.max())
    low, high = min(low, 0.0), 1.0 if 0.7 < high <= 1 else high
    return (low, high) if high > low else (low, low + 1.0)


def describe(title: str, values: np.ndarray) -> str:
    """The map in words, for whoever cannot see it."""
    finite = values[np.isfinite(values)]
    rows, columns = values.shape
    if not finite.size:
        return f"{title}: a map of {rows} by {columns} without a finite value."
    return f"{title}: a map of {rows} by {columns}, from {short(finite.min())} to {short(finite.max())}."


def first_column(values: np.ndarray) -> int:
    """With one column more than rows, the first stands for what came before the first layer."""
    return 0 if values.shape[1] == values.shape[0] + 1 else 1


def _ticks(length: int, first: int) -> tuple[list[int], list[str]]:
    """About six, evenly, the first and last among them."""
    places = sorted({round(place) for place in np.linspace(0, length - 1, min(length, 6))}) if length else []
    return places, [str(place + first) for place in places]
