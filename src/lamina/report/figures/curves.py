"""Panels of curves as pictures: spreads as bands, predictions dashed.

Infinite values are triangles at the upper edge, values that a logarithmic axis cannot show are triangles at the lower
edge, and NaN leaves a gap; `describe_unplotted` says the same in words.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from lamina.diagnosis.measurement import Axes
from lamina.formatting import power_of_ten, printable, short
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import BLACK, LineStyle
from lamina.report.figures.svg import INK, canvas, drawing, inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes as DrawnAxes

WIDTH, HEIGHT = 3.4, 2.3  # inches: a column of a paper
MOST_MARKERS = 40
MOST_VALUES = 25
"""The number of points of a curve whose values are shown under the pointer; the table below a figure has all."""
LARGEST = 1e150  # the arithmetic of axes overflows beyond it
PICTURES = ("svg", "pdf", "png")
MOST_COLUMNS = 3
LEGEND_WIDTH = 1.1  # inches
GRID_COLOUR = "#dddddd"


def draw_panels(panels: Sequence[Panel], scale: Axes, prefix: str) -> list[Markup]:
    """One picture per panel, all with the same limits, so that they can be compared wherever a page puts them."""
    with drawing():
        canvases = [canvas(WIDTH, HEIGHT, left=0.72, below=0.42) for _ in panels]
        _fill([axes for _, axes in canvases], panels, scale)
        pictures = []
        for at, ((figure, axes), panel) in enumerate(zip(canvases, panels, strict=True)):
            titles = {
                f"values-{number}": _add_hover_points(axes, curve, f"values-{number}", scale.log_y)
                for number, curve in enumerate(panel.curves)
            }
            pictures.append(inline(figure, f"{prefix}-{at}", describe(panel), titles))
        return pictures


def draw_standalone(panels: Sequence[Panel], scale: Axes, form: str) -> bytes:
    """All panels and their legend in one file with a white background; the same bytes every time."""
    from matplotlib.figure import Figure

    columns = min(len(panels), MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    with drawing(grid_color=GRID_COLOUR):
        figure = Figure(figsize=(columns * WIDTH + LEGEND_WIDTH, rows * (HEIGHT + 0.2)), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        for unused in grid[len(panels) :]:
            unused.remove()
        sheets = grid[: len(panels)].tolist()
        _fill(sheets, panels, scale)
        for axes, panel in zip(sheets, panels, strict=True):
            axes.set_title(printable(panel.title), fontsize=8.0)
        handles = {
            label: handle for axes in sheets for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
        written = io.BytesIO()
        date = {"svg": "Date", "pdf": "CreationDate"}.get(form)
        figure.savefig(written, format=form, dpi=200, metadata={date: None} if date else {})
    return written.getvalue()


def draw_legend_key(style: LineStyle, prefix: str) -> Markup:
    """The short line that stands before a name in a legend."""
    with drawing():
        figure, axes = canvas(0.36, 0.14)
        axes.set_axis_off()
        axes.set(xlim=(0, 2), ylim=(-1, 1))
        axes.plot([0.05, 1, 1.95], [0, 0, 0], markevery=[1], **_plot_options(style))
        return inline(figure, prefix, "")


def describe(panel: Panel) -> str:
    """The panel in words, for screen readers."""
    sentences = []
    for curve in panel.curves:
        points = [(x, y) for x, y in zip(curve.series.x, curve.series.y, strict=True) if math.isfinite(y)]
        if points:
            (first, start), (last, end) = points[0], points[-1]
            sentences.append(
                f"{curve.name} goes from {short(start)} at {short(first)} to {short(end)} at {short(last)}"
            )
        else:
            sentences.append(f"{curve.name} has no finite value")
    return f"{panel.title}: {'; '.join(sentences)}."


def describe_unplotted(panels: Iterable[Panel], log_y: bool) -> list[str]:
    """Sentences about the values that a picture cannot show as a point."""
    kinds: list[tuple[str, Callable[[float], bool]]] = [("not a number", math.isnan), ("infinite", math.isinf)]
    if log_y:
        kinds.append(("zero or less", _is_zero_or_less))
    sentences = []
    for panel in panels:
        for curve in panel.curves:
            for kind, applies in kinds:
                places = [x for x, y in zip(curve.series.x, curve.series.y, strict=True) if applies(y)]
                if places:
                    shown = ", ".join(short(x) for x in places[:8]) + (" …" if len(places) > 8 else "")
                    sentences.append(f"{curve.name}, {panel.title}: {kind} at {shown}.")
    return sentences


def _is_zero_or_less(value: float) -> bool:
    return math.isfinite(value) and value <= 0


def _fill(sheets: Sequence[DrawnAxes], panels: Sequence[Panel], scale: Axes) -> None:
    """Draw each panel on its axes; all have the same limits."""
    curves = [curve for panel in panels for curve in panel.curves]
    x_limits = _limits((curve.series.x for curve in curves), scale.log_x, margin=0.03)
    y_limits = _limits(_heights(curves, scale.log_y), scale.log_y, margin=0.06, zero=True)
    for axes, panel in zip(sheets, panels, strict=True):
        axes.set_xscale("log" if scale.log_x else "linear")
        axes.set_yscale("log" if scale.log_y else "linear")
        axes.set(xlim=x_limits, ylim=y_limits, xlabel=printable(scale.x))
        axes.set_ylabel(textwrap.fill(printable(scale.y, 60), 30))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        _set_ticks(axes, scale, curves)
        for curve in panel.curves:
            _draw(axes, curve, scale.log_y)


def _draw(axes: DrawnAxes, curve: Curve, log_y: bool) -> None:
    x, y = np.array(curve.series.x), np.array(curve.series.y)
    shown = np.where(np.isfinite(y) & ((y > 0) if log_y else True), y, np.nan)
    options = _plot_options(curve.style, with_markers=len(x) <= MOST_MARKERS)
    if curve.series.points:
        options = {"color": _colour(curve.style), "linestyle": "none", "marker": "o", "markersize": 5.0}
    axes.plot(x, shown, zorder=3 if curve.series.role == "measured" else 2, label=printable(curve.name), **options)
    if curve.series.spread:
        spread = np.nan_to_num(np.array(curve.series.spread), nan=0.0, posinf=0.0)
        lower = np.maximum(shown - spread, axes.get_ylim()[0] if log_y else -np.inf)
        axes.fill_between(x, lower, shown + spread, color=_colour(curve.style), alpha=0.18, linewidth=0, zorder=1)
    edges = {1.0: ("^", y == np.inf), 0.0: ("v", (y == -np.inf) | ((y <= 0) if log_y else False))}
    for height, (marker, there) in edges.items():
        if there.any():
            axes.plot(
                x[there],
                np.full(int(there.sum()), height),
                linestyle="none",
                marker=marker,
                markersize=4,
                color=_colour(curve.style),
                markerfacecolor="none",
                clip_on=False,
                transform=axes.get_xaxis_transform(),
            )


def _add_hover_points(axes: DrawnAxes, curve: Curve, gid: str, log_y: bool) -> list[str]:
    """Draw transparent points on a curve, at most `MOST_VALUES`; returns their values as text, which a browser shows
    while the pointer is on them."""
    series = curve.series
    spreads = series.spread or [0.0] * len(series.x)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    points = [
        (x, y, spread)
        for x, y, spread in zip(series.x, series.y, spreads, strict=True)
        if math.isfinite(y) and left <= x <= right and bottom <= y <= top and not (log_y and y <= 0)
    ]
    kept = sorted({round(at) for at in np.linspace(0, len(points) - 1, min(len(points), MOST_VALUES))})
    points = [points[at] for at in kept] if points else []
    axes.plot(
        [x for x, _, _ in points],
        [y for _, y, _ in points],
        linestyle="none",
        marker="o",
        markersize=6,
        markeredgewidth=0,
        alpha=0,
        zorder=4,
        gid=gid,
    )
    return [
        f"{printable(curve.name)}: {short(y)}{f' ± {short(spread)}' if spread else ''} at {short(x)}"
        for x, y, spread in points
    ]


def _plot_options(style: LineStyle, with_markers: bool = True) -> dict[str, Any]:
    colour = _colour(style)
    if style.marker is None:
        return {"color": colour, "linestyle": (0, (4, 2)), "linewidth": 1.0}
    markers = {"marker": style.marker, "markersize": 3.0, "markeredgewidth": 0} if with_markers else {}
    return {"color": colour, "linestyle": style.linestyle, "linewidth": 1.4} | markers


def _colour(style: LineStyle) -> str:
    """Black stands for the page's text colour, which is light in dark mode."""
    return INK if style.colour == BLACK else style.colour


def _heights(curves: Iterable[Curve], log: bool) -> Iterable[Sequence[float]]:
    """All values, and the ends of the bands around them where these can be drawn."""
    for curve in curves:
        series = curve.series
        yield series.y
        for sign in (-1, 1) if series.spread else ():
            ends = [y + sign * spread for y, spread in zip(series.y, series.spread, strict=True)]
            # On a logarithmic axis a band that reaches down to zero must not stretch the axis.
            yield [end for end, y in zip(ends, series.y, strict=True) if not log or end > y / 3]


def _limits(values: Iterable[Sequence[float]], log: bool, margin: float, zero: bool = False) -> tuple[float, float]:
    """The ends of an axis; with `zero` it starts at zero if the smallest value is near it."""
    found = np.array([value for each in values for value in each], dtype=float)
    found = found[np.isfinite(found) & ((found > 1 / LARGEST) if log else True)].clip(-LARGEST, LARGEST)
    if not found.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if log:
        low, high = math.log10(low), math.log10(high)
        room = margin * (high - low) if high - low > 0.1 else 0.3
        return 10.0 ** (low - room), 10.0 ** (high + room)
    # Values that hardly vary must not look as if they did.
    least = 0.3 * abs(high) or 1.0
    room = margin * (high - low) + max(0.0, least - (high - low)) / 2
    return (0.0 if 0 <= low < 0.3 * high and zero else low - room), high + room


def _set_ticks(axes: DrawnAxes, scale: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    whole = all(float(x).is_integer() for curve in curves for x in curve.series.x)
    for axis, log, ends in ((axes.xaxis, scale.log_x, axes.get_xlim()), (axes.yaxis, scale.log_y, axes.get_ylim())):
        decades = math.log10(ends[1] / ends[0]) if log else 0.0
        if log and decades > 2:
            axis.set_major_locator(LogLocator(numticks=6))
            axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(round(math.log10(value)))))
        else:
            integers = axis is axes.xaxis and whole
            locator = (
                LogLocator(subs=(1, 2, 5), numticks=12)
                if log
                else MaxNLocator(6, integer=integers, steps=[1, 2, 5, 10])
            )
            axis.set_major_locator(locator)
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_locator(NullLocator())
