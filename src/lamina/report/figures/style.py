"""Line styles: a scheme has the same colour in every figure, and lines differ for colour-blind readers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from lamina import residual

BLACK = "#000000"
COLOURS = [BLACK, "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]  # Okabe & Ito's palette
DASHES = ["--", "-.", ":"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


@dataclass(frozen=True)
class LineStyle:
    """The style of a line. Measured lines have markers; predictions are dashed and have none."""

    colour: str
    linestyle: str = "-"
    marker: str | None = "o"

    @property
    def of_prediction(self) -> LineStyle:
        return LineStyle(self.colour, "--", None)


NEUTRAL = LineStyle(BLACK)


def scheme_style(scheme: str) -> LineStyle:
    """A solid line in the scheme's own colour; a scheme without one gets a style by its index among such schemes."""
    own = residual.find(scheme).colour
    if own is not None:
        return LineStyle(own)
    others = [each.name for each in residual.schemes() if each.colour is None]
    at = others.index(residual.find(scheme).name)
    return LineStyle(COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)])


def model_styles(models: Sequence[Sequence[str]]) -> list[LineStyle]:
    """One style for each model, given by the schemes of its stacks.

    Models of one scheme have its colour, and different markers. Models of several schemes and foreign models take
    colours that no other model has, as long as there are some.
    """
    known = {scheme.name for scheme in residual.schemes()}
    single = [next(iter(set(model))) if len(set(model)) == 1 and set(model) <= known else None for model in models]
    taken = {scheme_style(scheme).colour for scheme in single if scheme}
    free = [colour for colour in COLOURS if colour not in taken] or COLOURS
    chosen, seen, others = [], Counter[str](), 0
    for scheme in single:
        if scheme is None:
            chosen.append(LineStyle(free[others % len(free)], marker=MARKERS[others // len(free) % len(MARKERS)]))
            others += 1
        else:
            chosen.append(replace(scheme_style(scheme), marker=MARKERS[seen[scheme] % len(MARKERS)]))
            seen[scheme] += 1
    return chosen


def part_styles(parts: Sequence[Hashable], without: Collection[str] = ()) -> list[LineStyle]:
    """Styles for the lines of one model: equal parts have one colour, and other markers and dashes.

    The colours `without` are left out.
    """
    free = [colour for colour in COLOURS if colour not in without]
    places = {part: at for at, part in enumerate(dict.fromkeys(parts))}
    seen: Counter[Hashable] = Counter()
    styles = []
    for part in parts:
        repeat, again = seen[part], places[part] // len(free)
        linestyle = "-" if repeat == 0 else DASHES[repeat % len(DASHES)]
        styles.append(LineStyle(free[places[part] % len(free)], linestyle, MARKERS[(again + repeat) % len(MARKERS)]))
        seen[part] += 1
    return styles
