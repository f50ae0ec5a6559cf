"""Curves as a picture that stands alone, with its legend and a white ground: for a paper, a slide, a README."""

from __future__ import annotations

import io
from collections.abc import Sequence

from lamina.report.figures.curves import HEIGHT, WIDTH, Panel, Scale, fill
from lamina.report.figures.svg import drawing, printable

PICTURES = ("svg", "pdf", "png")
MOST_ABREAST = 3
LEGEND = 1.1  # inches
RULE = "#dddddd"


def draw_alone(panels: Sequence[Panel], scale: Scale, form: str) -> bytes:
    """The panels in rows, their titles above them, what the lines mean on the right; the same bytes every time."""
    from matplotlib.figure import Figure

    abreast = min(len(panels), MOST_ABREAST)
    rows = -(-len(panels) // abreast)
    with drawing(grid_color=RULE):
        figure = Figure(figsize=(abreast * WIDTH + LEGEND, rows * (HEIGHT + 0.2)), layout="constrained")
        grid = figure.subplots(rows, abreast, squeeze=False).flatten()
        for unused in grid[len(panels) :]:
            unused.remove()
        sheets = grid[: len(panels)].tolist()
        fill(sheets, panels, scale)
        for axes, panel in zip(sheets, panels, strict=True):
            axes.set_title(printable(panel.title), fontsize=8.0)
        handles = {
            label: handle for axes in sheets for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
        written = io.BytesIO()
        dated = {"svg": "Date", "pdf": "CreationDate"}
        metadata = {dated[form]: None} if form in dated else {}
        figure.savefig(written, format=form, dpi=200, metadata=metadata)
    return written.getvalue()
