"""One quantity as a page shows it: pictures, legend, caption, and the tables behind them; of one model or of several.

Several models share a panel for each part of the model, a line each. Where parts are many, and of one model alone, each
stack gets a panel instead, with a line for each kind: `encoder query` is the kind `query` of the stack `encoder`.
Maps of one part stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from lamina.diagnosis.results import Grid, Measure, Series
from lamina.report.figures.curves import Line, Panel, Scale, draw_panels, draw_swatch, oddities
from lamina.report.figures.maps import draw_maps
from lamina.report.figures.style import BLACK, Look, looks, looks_of_parts
from lamina.report.pages.tables import Table, table_of_facts, table_of_map, table_of_panel

MOST_PARTS = 8
NEUTRAL = Look(BLACK)


@dataclass(frozen=True)
class Subject:
    """A model, and what was measured of it."""

    name: str
    schemes: tuple[str, ...]
    measure: Measure


@dataclass(frozen=True)
class Plate:
    """One picture with its heading."""

    title: str
    picture: Markup


@dataclass(frozen=True)
class Exhibit:
    anchor: str
    subjects: tuple[Subject, ...]
    missing: tuple[tuple[str, str], ...] = ()
    """Models of which it was not measured, with the reason."""

    @property
    def measure(self) -> Measure:
        """Title, formula, source and caption are the same for all."""
        return self.subjects[0].measure

    @property
    def scale(self) -> Scale:
        measure = self.measure
        return Scale(measure.x_label, measure.y_label, measure.log_x, measure.log_y)

    @cached_property
    def panels(self) -> list[Panel]:
        parts = list(dict.fromkeys(series.label for each in self.subjects for series in each.measure.measured))
        looked = list(zip(self.subjects, looks([each.schemes for each in self.subjects]), strict=True))
        if len(parts) > MOST_PARTS or (len(looked) == 1 and _stacks(parts) != [""]):
            return [
                panel for subject, look in looked for panel in _panels_of_subject(subject, look, parts, len(looked) > 1)
            ]
        if not parts and any(each.measure.theory for each in self.subjects):
            parts = ["theory"]
        return [_panel_of_part(part, looked) for part in parts]

    @cached_property
    def maps(self) -> dict[str, list[tuple[str, Grid]]]:
        """By part, the map of each model; of one model, all its maps."""
        found: dict[str, list[tuple[str, Grid]]] = {}
        for subject in self.subjects:
            for grid in subject.measure.grids:
                alone = len(self.subjects) == 1
                found.setdefault("" if alone else grid.label, []).append((grid.label if alone else subject.name, grid))
        return found

    @cached_property
    def plates(self) -> list[Plate]:
        pictures = draw_panels(self.panels, self.scale, self.anchor) if self.panels else []
        return [Plate(panel.title, picture) for panel, picture in zip(self.panels, pictures, strict=True)]

    @cached_property
    def drawn_maps(self) -> tuple[dict[str, list[Plate]], Markup]:
        """The pictures of `maps`, and the colour bar they share."""
        every = [pair for group in self.maps.values() for pair in group]
        *pictures, bar = draw_maps(every, f"{self.anchor}-map")
        left = iter(pictures)
        return {part: [Plate(title, next(left)) for title, _ in group] for part, group in self.maps.items()}, bar

    @cached_property
    def legend(self) -> list[Plate]:
        """A line's look and its name, once each."""
        lines = {(line.name, line.look): None for panel in self.panels for line in panel.lines}
        return [Plate(name, draw_swatch(look, f"{self.anchor}-key-{at}")) for at, (name, look) in enumerate(lines)]

    @property
    def tables(self) -> list[Table]:
        curves = [table_of_panel(panel, self.measure.x_label) for panel in self.panels]
        maps = [
            table_of_map(f"{title}, {part}" if part else title, grid)
            for part, group in self.maps.items()
            for title, grid in group
        ]
        return curves + maps

    @property
    def facts(self) -> Table | None:
        return table_of_facts({each.name: each.measure for each in self.subjects})

    @property
    def remarks(self) -> list[str]:
        return oddities(self.panels, self.measure.log_y)


def _panel_of_part(part: str, looked: Sequence[tuple[Subject, Look]]) -> Panel:
    """One part of all models: each in its colour, and its theory in the same."""
    lines = [
        Line(subject.name, series, look.as_theory if series.dashes else look, theory=series.dashes)
        for subject, look in looked
        for series in subject.measure.measured
        if series.label == part
    ]
    return Panel(part, (*lines, *_theory(part, looked)))


def _theory(part: str, looked: Sequence[tuple[Subject, Look]]) -> list[Line]:
    """A prediction that is the same for several models is drawn once, in the page's ink."""
    owners: dict[Series, list[tuple[Subject, Look]]] = {}
    for subject, look in looked:
        for series in subject.measure.theory:
            if _concerns(series.label, part, subject.measure):
                owners.setdefault(series, []).append((subject, look))
    lines = []
    for series, those in owners.items():
        what = _without(series.label, part)
        whose = "" if len(those) == len(looked) else " and ".join(subject.name for subject, _ in those)
        look = those[0][1] if whose and len(those) == 1 else NEUTRAL
        lines.append(Line(f"{whose}, {what}" if whose else what, series, look.as_theory, theory=True))
    return lines


def _panels_of_subject(subject: Subject, own: Look, parts: Sequence[str], several: bool) -> list[Panel]:
    """A panel for each stack of one model. A kind has the same colour in all; the stack's own line has the model's."""
    stacks = _stacks(parts)
    kinds = list(dict.fromkeys(_kind(part, stacks) for part in parts))
    named = [kind for kind in kinds if kind]
    looked = looks_of_parts(len(named), without=own.colour if "" in kinds else None)
    look = dict(zip(named, looked, strict=True)) | {"": own}
    lines: dict[str, list[Line]] = {stack: [] for stack in stacks}
    for series in subject.measure.measured:
        kind = _kind(series.label, stacks)
        lines[_stack(series.label, stacks)].append(Line(kind or subject.name, series, look[kind]))
    for series in subject.measure.theory:
        part = max((each for each in parts if _names(series.label, each)), key=len, default=None)
        for stack in stacks if part is None else [_stack(part, stacks)]:
            name = _without(series.label, stack) if stack else series.label
            of_part = NEUTRAL if part is None else look[_kind(part, stacks)]
            lines[stack].append(Line(name, series, of_part.as_theory, theory=True))
    titles = {stack: ", ".join(filter(None, (subject.name if several or not stack else "", stack))) for stack in stacks}
    return [Panel(titles[stack], tuple(those)) for stack, those in lines.items() if those]


def _stacks(parts: Sequence[str]) -> list[str]:
    """The first words of all labels, if at least two labels share each on average; else one stack without a name."""
    first = list(dict.fromkeys(part.split(" ")[0] for part in parts))
    return first if 2 * len(first) <= len(parts) else [""]


def _stack(part: str, stacks: Sequence[str]) -> str:
    return part.split(" ")[0] if stacks != [""] else ""


def _kind(part: str, stacks: Sequence[str]) -> str:
    return part.partition(" ")[2] if stacks != [""] else part


def _concerns(label: str, part: str, measure: Measure) -> bool:
    """A prediction belongs to the parts it names; to all, if it names none."""
    named = [each.label for each in measure.measured if _names(label, each.label)]
    return not named or part == max(named, key=len)


def _names(label: str, part: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", label) is not None


def _without(label: str, part: str) -> str:
    """What the prediction is called, in a panel that already says of which part it is."""
    rest = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "", label, count=1).strip(" ,:")
    return rest if rest and "theory" in rest else f"theory: {rest}" if rest else "theory"


def exhibits(models: Sequence[tuple[str, tuple[str, ...], Sequence[Measure]]], anchor: str = "") -> list[Exhibit]:
    """One for each quantity that was measured of any model, in the order of the measures."""
    shown: dict[str, list[Subject]] = {}
    for name, schemes, measures in models:
        for measure in measures:
            shown.setdefault(measure.key, []).append(Subject(name, schemes, measure))
    return [Exhibit(f"{anchor}{anchor_of(key)}", tuple(subjects)) for key, subjects in shown.items()]


def anchor_of(text: str) -> str:
    """A name for links that is safe in an id, whatever the text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"
