"""Which lines share a panel, and how they are named and drawn, chosen by the fields of the series.

Several models share a panel for each part of a model (a location and a quantity), with a line for each model. Where
there are many parts, and for a single model, each stack of a model has a panel with a line for each part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.diagnosis.results import Location, Measurement, Series, Stage
from lamina.report.figures.style import NEUTRAL, LineStyle, model_styles, part_styles
from lamina.report.labels import FIELDS, FIRST_STREAM, OTHER_MODULES, field_value, name_of, prediction_name

MOST_PARTS = 8
"""Of several models, so many parts have a panel each; more are drawn model by model."""
MOST_LINES = 8
"""Of one stack; where there are more, each quantity has a panel of its own."""

Part = tuple[Location, str, Stage | None]
"""What a measured line is about: location, quantity, stage."""


@dataclass(frozen=True)
class MeasuredModel:
    """A model and one measurement of it."""

    name: str
    schemes: tuple[str, ...]
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


def choose_panels(models: Sequence[MeasuredModel]) -> list[Panel]:
    """The panels of one measure, for one model or for several."""
    every = [series for model in models for series in _measured(model.measurement)]
    parts = dict.fromkeys(_part(series) for series in every)
    styles = model_styles([model.schemes for model in models])
    if len(models) == 1 or len(parts) > MOST_PARTS:
        return _panels_by_model(models, styles, every)
    first_of = {part: next(series for series in every if _part(series) == part) for part in parts}
    return [_panel_of_part(series, list(zip(models, styles, strict=True))) for series in first_of.values()]


def _measured(measurement: Measurement) -> Sequence[Series]:
    """The measured series; where there are none, the predictions."""
    return measurement.measured or measurement.series


def _part(series: Series) -> Part:
    return series.location, series.quantity, series.stage


def _panel_of_part(part: Series, models: Sequence[tuple[MeasuredModel, LineStyle]]) -> Panel:
    """One part of all models, each in its style."""
    curves = [
        Curve(model.name, series, style)
        for model, style in models
        for series in model.measurement.measured
        if _part(series) == _part(part)
    ]
    return Panel(name_of(part), (*curves, *_predictions_of_part(part, models)))


def _predictions_of_part(part: Series, models: Sequence[tuple[MeasuredModel, LineStyle]]) -> list[Curve]:
    """The predictions for one part, in the style of their model; one that several models share is drawn once."""
    owners: dict[Series, list[tuple[MeasuredModel, LineStyle]]] = {}
    for model, style in models:
        for prediction in model.measurement.predicted:
            if _concerns(prediction, part, model.measurement):
                owners.setdefault(prediction, []).append((model, style))
    curves = []
    for prediction, those in owners.items():
        shared_by_all = len(those) == len(models)
        of = "" if shared_by_all else " and ".join(model.name for model, _ in those)
        style = NEUTRAL if shared_by_all or len(those) > 1 else those[0][1]
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
    """By which fields the lines of a figure are divided into panels, and by which they are named."""

    panels: tuple[str, ...]
    lines: tuple[str, ...]
    """The fields in which the lines of a panel differ."""
    kinds: tuple[tuple[Any, ...], ...]
    """The values that the fields of `lines` have."""

    @property
    def titles(self) -> list[str]:
        return [field for field in FIELDS if field not in self.lines]


def _panels_by_model(
    models: Sequence[MeasuredModel], styles: Sequence[LineStyle], every: Sequence[Series]
) -> list[Panel]:
    layout = _layout(every)
    alone = len(models) == 1
    panels = []
    for model, style in zip(models, styles, strict=True):
        by_kind = _styles_by_kind(layout.kinds, style, alone)
        for title, curves in _curves_of_model(model, layout, by_kind):
            panels.append(Panel(title if alone and title else ", ".join(filter(None, (model.name, title))), curves))
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


def _styles_by_kind(kinds: Sequence[tuple[Any, ...]], own: LineStyle, alone: bool) -> dict[tuple[Any, ...], LineStyle]:
    """The same style for the same kind of line in all panels.

    The only kind has the model's style, and so has, of a single model, the kind without any field set.
    """
    main = kinds[0] if len(kinds) == 1 else next((each for each in kinds if alone and not any(each)), None)
    others = [kind for kind in kinds if kind != main]
    without = () if main is None else (own.colour,)
    styles = dict(zip(others, part_styles(len(others), without), strict=True))
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
    for those in groups.values():
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
        outside = those[0].location.stack is None and any(stack for stack, *_ in groups)
        yield OTHER_MODULES if outside else name_of(those[0], layout.titles), tuple(curves)
