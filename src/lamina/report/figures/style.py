"""How figures look: the same colour for the same scheme everywhere, told apart by colour-blind readers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lamina import residual

BLACK = "#000000"
COLOURS = [BLACK, "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]  # Okabe & Ito's palette
BROKEN = ["--", "-.", ":"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


@dataclass(frozen=True)
class Look:
    """How a line is drawn. Whatever was measured has markers; theory is broken and has none."""

    colour: str
    linestyle: str = "-"
    marker: str | None = "o"

    @property
    def as_theory(self) -> Look:
        return Look(self.colour, "--", None)


def look_of(scheme: str) -> dict[str, str]:
    """The scheme's own colour, or one shared with others and a broken line, by its place among all names."""
    own = residual.find(scheme).colour
    if own is not None:
        return {"color": own, "linestyle": "-"}
    plain = [each.name for each in residual.schemes() if each.colour is None]
    at = plain.index(residual.find(scheme).name)
    return {"color": COLOURS[at % len(COLOURS)], "linestyle": BROKEN[at // len(COLOURS) % len(BROKEN)]}


def looks(models: Sequence[Sequence[str]]) -> list[Look]:
    """One for each model, given by the schemes of its stacks.

    A scheme has its colour; a second model of the same scheme gets another marker. Mixtures and foreign models take
    colours that no model here has by right, as long as there are some.
    """
    known = {scheme.name for scheme in residual.schemes()}
    single = [next(iter(set(model))) if len(set(model)) == 1 and set(model) <= known else None for model in models]
    taken = {look_of(scheme)["color"] for scheme in single if scheme}
    free = [colour for colour in COLOURS if colour not in taken] or COLOURS
    chosen, seen, others = [], Counter[str](), 0
    for scheme in single:
        if scheme is None:
            chosen.append(Look(free[others % len(free)], marker=MARKERS[others // len(free) % len(MARKERS)]))
            others += 1
        else:
            look = look_of(scheme)
            chosen.append(Look(look["color"], look["linestyle"], MARKERS[seen[scheme] % len(MARKERS)]))
            seen[scheme] += 1
    return chosen


def looks_of_parts(number: int, without: str | None = None) -> list[Look]:
    """For the lines of one model: colours by place, so that the same part looks the same in every picture."""
    free = [colour for colour in COLOURS if colour != without]
    return [Look(free[at % len(free)], marker=MARKERS[at // len(free) % len(MARKERS)]) for at in range(number)]
