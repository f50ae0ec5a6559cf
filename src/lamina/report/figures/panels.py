"""Which lines share a panel, and how they are named and drawn, chosen by the fields of the series.

Several models share a panel for each part of a model (a location and a quantity), with a line for each model. Where
there are many parts, and for a single model, each stack of a model has a panel with a line for each part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.diagnosis.measurement import Location, Measurement, Series, Stage
from lamina.report.figures.style import NEUTRAL, LineStyle, part_styles
from lamina.report.labels import FIELDS, FIRST_STREAM, OTHER_MODULES, field_value, name_of, prediction_name

MOST_PARTS = 8
"""The largest number of parts that have a panel each when several models are shown; more are drawn model by model."""
MOST_LINES = 8
"""The largest number of lines in the panel of a stack; with more, each quantity has its own panel."""

LineIdentity = tuple[Location, str, Stage | None]
"""What identifies a measured line: location, quantity and stage."""


@dataclass(frozen=True)
class MeasuredModel:
    """A model with its style on a page, and one measurement of it."""

    name: str
    style: LineStyle
    measurement: Measurement


@dataclass(frozen=True)
class Curve:
    """A series with its name in the legend and its style."""

    name: str
    series: Series
    style: LineStyle


@dataclass(frozen=True)
class Panel:
    """The curves that share one set of axes."""

    title: str
    curves: tuple[Curve, ...]


def choose_panels(models: Sequence[MeasuredModel], *, titled: bool = False) -> list[Panel]:
    """The panels of one measure, for one model or for several; `titled` says that titles name a single model too."""
    every = [series for model in models for series in _measured(model.measurement)]
    parts: dict[LineIdentity, Series] = {}
    for series in every:
        parts.setdefault(_part(series), series)
    if len(models) == 1 or len(parts) > MOST_PARTS:
        return _panels_by_model(models, every, titled or len(models) > 1)
    return [_panel_of_part(series, models) for series in parts.values()]


def _measured(measurement: Measurement) -> Sequence[Series]:
    """The measured series; where there are none, the predictions."""
    return measurement.measured or measurement.series


def _part(series: Series) -> LineIdentity:
    return series.location, series.quantity, series.stage


def _panel_of_part(part: Series, models: Sequence[MeasuredModel]) -> Panel:
    """One part of all models, each in its style."""
    curves = [
        Curve(model.name, series, model.style)
        for model in models
        for series in model.measurement.measured
        if _part(series) == _part(part)
    ]
    return Panel(name_of(part), (*curves, *_predictions_of_part(part, models)))


def _predictions_of_part(part: Series, models: Sequence[MeasuredModel]) -> list[Curve]:
    """The predictions for one part, in the style of their model; one that several models share is drawn once."""
    owners: dict[Series, list[MeasuredModel]] = {}
    for model in models:
        for prediction in model.measurement.predicted:
            if _concerns(prediction, part, model.measurement):
                owners.setdefault(prediction, []).append(model)
    curves = []
    for prediction, those in owners.items():
        shared_by_all = len(those) == len(models)
        of = "" if shared_by_all else " and ".join(model.name for model in those)
        style = NEUTRAL if shared_by_all or len(those) > 1 else those[0].style
        curves.append(Curve(prediction_name(prediction, of), prediction, style.of_prediction))
    return curves


def _concerns(prediction: Series, part: Series, measurement: Measurement) -> bool:
    """Whether a prediction belongs to a measured line."""
    predicted = _predicted_line(prediction, measurement)
    if predicted is not None:
        return _part(predicted) == _part(part)
    return prediction.stage == part.stage and all(
        value is None or value == getattr(part.location, field) for field, value in prediction.location
    )


def _predicted_line(prediction: Series, measurement: Measurement) -> Series | None:
    """The measured line that a prediction is about; None where it is about several."""
    there = (
        each
        for each in measurement.measured
        if (each.location, each.stage) == (prediction.location, prediction.stage)
        and prediction.predicts in ("", each.quantity)
    )
    return next(there, None)


@dataclass(frozen=True)
class _Layout:
    """The fields by which the lines of a figure are divided into panels, and those by which they are named."""

    panels: tuple[str, ...]
    lines: tuple[str, ...]
    """The fields in which the lines of a panel differ."""
    kinds: tuple[tuple[Any, ...], ...]
    """The values that the fields of `lines` have."""

    @property
    def titles(self) -> list[str]:
        return [field for field in FIELDS if field not in self.lines]


def _panels_by_model(models: Sequence[MeasuredModel], every: Sequence[Series], titled: bool) -> list[Panel]:
    layout = _layout(every)
    panels = []
    for model in models:
        by_kind = _styles_by_kind(layout, model.style, alone=len(models) == 1)
        for title, curves in _curves_of_model(model, layout, by_kind):
            name = model.name if titled or not title else ""
            panels.append(Panel(", ".join(filter(None, (name, title))), curves))
    return panels


def _layout(every: Sequence[Series]) -> _Layout:
    stacks = {series.location.stack for series in every}
    too_many = len({_part(series) for series in every}) > MOST_LINES * len(stacks)
    panels = ("stack", "quantity") if too_many else ("stack",)
    others = (field for field in FIELDS if field not in panels)
    lines = tuple(field for field in others if len({field_value(series, field) for series in every}) > 1)
    return _Layout(panels, lines, tuple(dict.fromkeys(_values(series, lines) for series in every)))


def _values(series: Series, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(field_value(series, field) for field in fields)


def _styles_by_kind(layout: _Layout, own: LineStyle, alone: bool) -> dict[tuple[Any, ...], LineStyle]:
    """The same style for the same kind of line in all panels; kinds of one matrix have one colour.

    The only kind has the model's style, and so has, of a single model, the kind without any field set.
    """
    kinds = layout.kinds
    main = kinds[0] if len(kinds) == 1 else next((each for each in kinds if alone and not any(each)), None)
    others = [kind for kind in kinds if kind != main]
    without = () if main is None else (own.colour,)
    matrix = layout.lines.index("matrix") if "matrix" in layout.lines else None
    parts = [kind if matrix is None else kind[matrix] or kind for kind in others]
    styles = dict(zip(others, part_styles(parts, without), strict=True))
    return styles if main is None else styles | {main: own}


def _curves_of_model(
    model: MeasuredModel, layout: _Layout, styles: Mapping[tuple[Any, ...], LineStyle]
) -> Iterator[tuple[str, tuple[Curve, ...]]]:
    """Title and curves of every panel of one model."""
    measurement = model.measurement
    groups: dict[tuple[Any, ...], list[Series]] = {}
    for series in _measured(measurement):
        groups.setdefault(_values(series, layout.panels), []).append(series)
    unnamed = FIRST_STREAM if "stream" in layout.lines else model.name
    for those in sorted(groups.values(), key=lambda those: those[0].location.stack is None):
        curves = [
            Curve(name_of(each, layout.lines) or unnamed, each, styles[_values(each, layout.lines)])
            for each in those
            if each.role == "measured"
        ]
        for prediction in measurement.predicted:
            if any(_concerns(prediction, each, measurement) for each in those):
                line = _predicted_line(prediction, measurement)
                style = NEUTRAL if line is None else styles[_values(line, layout.lines)]
                of = "" if line is None else name_of(line, layout.lines)
                curves.append(Curve(prediction_name(prediction, of), prediction, style.of_prediction))
        title = name_of(those[0], layout.titles)
        if not title and any(stack for stack, *_ in groups):
            title = OTHER_MODULES if len(those) > 1 else name_of(those[0], layout.lines)
        yield title, tuple(curves)
