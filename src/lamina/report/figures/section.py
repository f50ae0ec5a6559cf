"""The section of a page that shows one measure: pictures, legend, caption, and the tables behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from markupsafe import Markup

from lamina.diagnosis.measurement import Axes, Description, Grid, Measurement
from lamina.report.figures.curves import describe_unplotted, draw_legend_key, draw_panels
from lamina.report.figures.maps import draw_maps
from lamina.report.figures.panels import MeasuredModel, Panel, choose_panels
from lamina.report.figures.style import model_styles
from lamina.report.labels import name_of
from lamina.report.tables import Table, fact_table, map_table, panel_table

TitledGrid = tuple[str, Grid]


@dataclass(frozen=True)
class TitledPicture:
    """One picture with its heading, or one entry of a legend."""

    title: str
    picture: Markup


@dataclass(frozen=True)
class FigureSection:
    """One measure of one model or of several."""

    anchor: str
    """The id of the section, for links."""
    about: Description
    panels: Sequence[Panel] = ()
    maps: Mapping[str, Sequence[TitledGrid]] = field(default_factory=dict)
    """Maps that stand side by side, under their common heading."""
    facts: Table | None = None

    @cached_property
    def pictures(self) -> list[TitledPicture]:
        drawn = draw_panels(self.panels, self.about.axes, self.anchor) if self.panels else []
        return [TitledPicture(panel.title, picture) for panel, picture in zip(self.panels, drawn, strict=True)]

    @cached_property
    def map_pictures(self) -> tuple[dict[str, list[TitledPicture]], Markup]:
        """The pictures of `maps`, and the colour bar they share."""
        every = [titled for group in self.maps.values() for titled in group]
        *drawn, bar = draw_maps(every, f"{self.anchor}-map")
        left = iter(drawn)
        return {
            heading: [TitledPicture(title, next(left)) for title, _ in group] for heading, group in self.maps.items()
        }, bar

    @cached_property
    def legend(self) -> list[TitledPicture]:
        """Each style and name once."""
        entries = dict.fromkeys((curve.name, curve.style) for panel in self.panels for curve in panel.curves)
        return [
            TitledPicture(name, draw_legend_key(style, f"{self.anchor}-key-{at}"))
            for at, (name, style) in enumerate(entries)
        ]

    @property
    def tables(self) -> list[Table]:
        curves = [panel_table(panel, self.about.axes.x) for panel in self.panels]
        maps = [map_table(title, grid) for title, grid in self.titled_maps]
        return curves + maps

    @property
    def titled_maps(self) -> list[TitledGrid]:
        """All maps, each with its own and its common heading."""
        return [
            (f"{title}, {heading}" if heading else title, grid)
            for heading, group in self.maps.items()
            for title, grid in group
        ]

    @property
    def remarks(self) -> list[str]:
        return describe_unplotted(self.panels, self.about.axes.log_y)


def figure_sections(
    models: Sequence[tuple[str, tuple[str, ...], Sequence[Measurement]]], anchor: str = ""
) -> list[FigureSection]:
    """A section for each measure that was taken of any model, in the order of the measurements.

    Models are given by name, schemes and measurements. Measurements of one measure on different axes, such as layers
    and steps, have a section each.
    """
    shown: dict[tuple[str, Axes], list[MeasuredModel]] = {}
    styles = model_styles([schemes for _, schemes, _ in models])
    for (name, _, measurements), style in zip(models, styles, strict=True):
        for each in measurements:
            shown.setdefault((each.key, each.about.axes), []).append(MeasuredModel(name, style, each))
    sections: dict[str, FigureSection] = {}
    for (key, _), those in shown.items():
        place = f"{anchor}{anchor_of(key)}"
        place = place if place not in sections else f"{place}-{len(sections)}"
        sections[place] = _section(place, those, alone=len(models) == 1)
    return list(sections.values())


def _section(anchor: str, models: Sequence[MeasuredModel], alone: bool) -> FigureSection:
    """The section of some models; `alone` says that the page has only one."""
    return FigureSection(
        anchor,
        models[0].measurement.about,
        choose_panels(models, titled=not alone),
        _maps(models, alone),
        fact_table({model.name: model.measurement for model in models}, alone=alone),
    )


def _maps(models: Sequence[MeasuredModel], alone: bool) -> dict[str, list[TitledGrid]]:
    """The maps by heading: for several models, the maps of one part side by side; for one model, all its maps."""
    found: dict[str, list[TitledGrid]] = {}
    for model in models:
        for grid in model.measurement.grids:
            part = name_of(grid) or model.name
            if len(models) == 1:
                found.setdefault("" if alone else model.name, []).append((part, grid))
            else:
                found.setdefault(part, []).append((model.name, grid))
    return found


def anchor_of(text: str) -> str:
    """Text as an id that is safe in HTML."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"
