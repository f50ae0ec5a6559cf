"""Curves as pictures: panels side by side on the same axes, spread as a band, theory broken, nothing left out.

What is infinite stands as a triangle at the upper edge, what a logarithmic axis cannot show at the lower one, and what
is not a number leaves a gap; `oddities` says the same in words.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from lamina.diagnosis.results import Series
from lamina.formatting import power_of_ten, short
from lamina.report.figures.style import BLACK, Look
from lamina.report.figures.svg import INK, canvas, drawing, inline, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 3.4, 2.3  # inches: a column of a paper
MOST_MARKERS = 40
FARTHEST = 1e150  # beyond it the arithmetic of axes overflows


@dataclass(frozen=True)
class Line:
    """A series, under the name it has in the legend."""

    name: str
    series: Series
    look: Look
    theory: bool = False


@dataclass(frozen=True)
class Panel:
    """The lines that share one set of axes."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Scale:
    """What all panels of a figure share."""

    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False


def draw_panels(panels: Sequence[Panel], scale: Scale, prefix: str) -> list[Markup]:
    """One picture per panel, all with the same limits, so that they can be compared wherever a page puts them."""
    with drawing():
        canvases = [canvas(WIDTH, HEIGHT, left=0.72, below=0.42) for _ in panels]
        fill([axes for _, axes in canvases], panels, scale)
        return [
            inline(figure, f"{prefix}-{at}", describe(panel))
            for at, ((figure, _), panel) in enumerate(zip(canvases, panels, strict=True))
        ]


def fill(sheets: Sequence[Axes], panels: Sequence[Panel], scale: Scale) -> None:
    """Draw each panel on its axes, within limits that hold for all."""
    lines = [line for panel in panels for line in panel.lines]
    across = _limits((line.series.x for line in lines), scale.log_x, margin=0.03)
    up = _limits(_heights(lines, scale.log_y), scale.log_y, margin=0.06, zero=True)
    for axes, panel in zip(sheets, panels, strict=True):
        axes.set_xscale("log" if scale.log_x else "linear")
        axes.set_yscale("log" if scale.log_y else "linear")
        axes.set(xlim=across, ylim=up, xlabel=printable(scale.x_label))
        axes.set_ylabel(textwrap.fill(printable(scale.y_label, 60), 30))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        _set_ticks(axes, scale, lines)
        for line in panel.lines:
            _draw(axes, line, scale.log_y)


def draw_swatch(look: Look, prefix: str) -> Markup:
    """What stands before a name in a legend."""
    with drawing():
        figure, axes = canvas(0.36, 0.14)
        axes.set_axis_off()
        axes.set(xlim=(0, 2), ylim=(-1, 1))
        axes.plot([0.05, 1, 1.95], [0, 0, 0], markevery=[1], **_strokes(look))
        return inline(figure, prefix, "")


def describe(panel: Panel) -> str:
    """The panel in words, for whoever cannot see it."""
    told = []
    for line in panel.lines:
        points = [(x, y) for x, y in zip(line.series.x, line.series.y, strict=True) if math.isfinite(y)]
        if points:
            (first, start), (last, end) = points[0], points[-1]
            told.append(f"{line.name} goes from {short(start)} at {short(first)} to {short(end)} at {short(last)}")
        else:
            told.append(f"{line.name} has no finite value")
    return f"{panel.title}: {'; '.join(told)}."


def oddities(panels: Iterable[Panel], log_y: bool) -> list[str]:
    """Sentences about the values that a picture cannot show as a point."""
    sentences = []
    for panel in panels:
        for line in panel.lines:
            for what, odd in (("not a number", math.isnan), ("infinite", math.isinf), ("zero or less", _beneath)):
                places = [x for x, y in zip(line.series.x, line.series.y, strict=True) if odd(y)]
                if places and (log_y or what != "zero or less"):
                    shown = ", ".join(short(x) for x in places[:8]) + (" …" if len(places) > 8 else "")
                    sentences.append(f"{line.name}, {panel.title}: {what} at {shown}.")
    return sentences


def _beneath(value: float) -> bool:
    return math.isfinite(value) and value <= 0


def _draw(axes: Axes, line: Line, log_y: bool) -> None:
    x, y = np.array(line.series.x), np.array(line.series.y)
    shown = np.where(np.isfinite(y) & ((y > 0) if log_y else True), y, np.nan)
    marked = len(x) <= MOST_MARKERS
    axes.plot(x, shown, zorder=2 if line.theory else 3, label=printable(line.name), **_strokes(line.look, marked))
    if line.series.spread:
        spread = np.nan_to_num(np.array(line.series.spread), nan=0.0, posinf=0.0)
        lower = np.maximum(shown - spread, axes.get_ylim()[0] if log_y else -np.inf)
        axes.fill_between(x, lower, shown + spread, color=_colour(line.look), alpha=0.18, linewidth=0, zorder=1)
    edges = {1.0: ("^", y == np.inf), 0.0: ("v", (y == -np.inf) | ((y <= 0) if log_y else False))}
    for height, (marker, there) in edges.items():
        if there.any():
            axes.plot(
                x[there],
                np.full(int(there.sum()), height),
                linestyle="none",
                marker=marker,
                markersize=4,
                color=_colour(line.look),
                markerfacecolor="none",
                clip_on=False,
                transform=axes.get_xaxis_transform(),
            )


def _strokes(look: Look, marked: bool = True) -> dict[str, Any]:
    colour = _colour(look)
    if look.marker is None:
        return {"color": colour, "linestyle": (0, (4, 2)), "linewidth": 1.0}
    markers = {"marker": look.marker, "markersize": 3.0, "markeredgewidth": 0} if marked else {}
    return {"color": colour, "linestyle": look.linestyle, "linewidth": 1.4} | markers


def _colour(look: Look) -> str:
    """Black is the page's ink: on a dark page it is light."""
    return INK if look.colour == BLACK else look.colour


def _heights(lines: Iterable[Line], log: bool) -> Iterable[Sequence[float]]:
    """All values, with the bands around them where these can be drawn."""
    for line in lines:
        yield line.series.y
        for sign in (-1, 1) if line.series.spread else ():
            ends = [y + sign * spread for y, spread in zip(line.series.y, line.series.spread, strict=True)]
            # On a logarithmic axis a band that reaches down to nothing must not stretch it.
            yield [end for end, y in zip(ends, line.series.y, strict=True) if not log or end > y / 3]


def _limits(values: Iterable[Sequence[float]], log: bool, margin: float, zero: bool = False) -> tuple[float, float]:
    """The ends of an axis; with `zero` it starts there if the values come near."""
    found = np.array([value for each in values for value in each], dtype=float)
    found = found[np.isfinite(found) & ((found > 1 / FARTHEST) if log else True)].clip(-FARTHEST, FARTHEST)
    if not found.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if log:
        low, high = math.log10(low), math.log10(high)
        room = margin * (high - low) if high - low > 0.1 else 0.3
        return 10.0 ** (low - room), 10.0 ** (high + room)
    # What hardly varies must not look as if it did.
    least = 0.3 * abs(high) or 1.0
    room = margin * (high - low) + max(0.0, least - (high - low)) / 2
    return (0.0 if 0 <= low < 0.3 * high and zero else low - room), high + room


def _set_ticks(axes: Axes, scale: Scale, lines: Sequence[Line]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    whole = all(float(x).is_integer() for line in lines for x in line.series.x)
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
