"""The figures of a comparison: loss curves, and measurements at the start and at the end of training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from lamina.diagnosis.measurement import Axes, Description, Fact, Grid, Location, Measurement, Series, Stage
from lamina.diagnosis.results import Diagnosis
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.section import FigureSection, anchor_of, figure_sections
from lamina.report.figures.style import LineStyle, model_styles, part_styles
from lamina.report.findings import printable_diagnosis
from lamina.report.labels import depth_name, scheme_name, variant_name
from lamina.report.run_results import RunResult
from lamina.report.run_settings import Settings

MOST_POINTS = 120
VALIDATION_LOSS, TRAINING_LOSS = "validation loss", "training loss"
STAGES = (Stage(name="start"), Stage(name="end"))
COMPARED = {
    "gradient-by-layer": Location(matrix="outer"),
    "gradient-along-stream": Location(),
    "gradient-when-moved": Location(),
    "layer-dependency": Location(),
    "cosine-of-layers": Location(),
}
"""The measures that a comparison shows, each with a part of the model; the page of a diagnosis shows all."""
Item = TypeVar("Item", Series, Grid, Fact)
LossCurve = Sequence[tuple[float, float]]
"""Steps and losses."""


class Variant(NamedTuple):
    """A variant of the model in a comparison: its schemes, its numbers of layers, and what else differs."""

    schemes: tuple[str, ...]
    layers: tuple[int, ...]
    settings: Settings = ()

    @property
    def name(self) -> str:
        return variant_name((f"{scheme_name(self.schemes)}, {depth_name(self.layers)}",), self.settings)

    @property
    def name_at_depth(self) -> str:
        """Its name beside others of the same depth."""
        return variant_name(self.schemes, self.settings)


Groups = Mapping[Variant, Sequence[RunResult]]
"""The runs of each variant, which differ in their seeds."""
Diagnosed = Mapping[Variant, Mapping[Stage, Diagnosis]]


def group_runs(runs: Iterable[RunResult]) -> Groups:
    groups: dict[Variant, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(Variant(run.schemes, run.layers, run.settings), []).append(run)
    return groups


def diagnoses_of(groups: Groups) -> Diagnosed:
    """For each variant, the diagnoses of the first run that has any."""
    found: dict[Variant, dict[Stage, Diagnosis]] = {}
    for variant, runs in groups.items():
        for run in runs:
            pairs = zip(STAGES, (run.start, run.end), strict=True)
            stages = {stage: printable_diagnosis(each) for stage, each in pairs if each is not None}
            if stages:
                found[variant] = stages
                break
    return found


def loss_sections(groups: Groups) -> list[FigureSection]:
    """The curves of both losses, as far as the runs have them."""
    validation = {variant: [run.validation_loss for run in runs] for variant, runs in groups.items()}
    training = {variant: [run.training_loss for run in runs] for variant, runs in groups.items()}
    sections = [_loss_section(VALIDATION_LOSS, validation), _loss_section(TRAINING_LOSS, training)]
    return [section for section in sections if section.panels]


def _loss_section(name: str, curves: Mapping[Variant, Sequence[LossCurve]]) -> FigureSection:
    """A panel for each depth, a line for each scheme and setting."""
    series = {variant: _over_seeds([line for line in lines if line]) for variant, lines in curves.items() if any(lines)}
    styles = _line_styles(list(series))
    panels = [
        Panel(
            f"depth {depth_name(depth)}",
            tuple(
                Curve(variant.name_at_depth, each, styles[variant.schemes, variant.settings])
                for variant, each in series.items()
                if variant.layers == depth
            ),
        )
        for depth in dict.fromkeys(variant.layers for variant in series)
    ]
    about = Description(
        key=name,
        title=name.capitalize(),
        formula="",
        source="",
        look_for="A line that stays high has not learnt; one that ends early has diverged. Bands show the standard "
        "deviation over seeds.",
        axes=Axes(x="step", y=name, log_y=_spans_decades(series.values())),
    )
    return FigureSection(f"curve-{anchor_of(name)}", about, panels)


def _line_styles(variants: Sequence[Variant]) -> dict[tuple[tuple[str, ...], Settings], LineStyle]:
    """A style for each scheme and setting at all depths: the scheme's colour, or other colours if there is only one."""
    models = list(dict.fromkeys((variant.schemes, variant.settings) for variant in variants))
    schemes = [own for own, _ in models]
    is_alone = len(models) > 1 and len(set(schemes)) == 1
    return dict(zip(models, part_styles(models) if is_alone else model_styles(schemes), strict=True))


def _spans_decades(lines: Iterable[Series]) -> bool:
    """Whether a linear axis would flatten all lines but one, such as a loss that explodes."""
    found = [value for line in lines for value in line.y if math.isfinite(value)]
    return bool(found) and min(found) > 0 and max(found) > 100 * min(found)


def _over_seeds(lines: Sequence[LossCurve]) -> Series:
    """Mean and standard deviation at each step that any run has; long curves are averaged over intervals."""
    values: dict[float, list[float]] = {}
    for line in lines:
        for step, value in _shortened(line):
            values.setdefault(step, []).append(value)
    steps = tuple(sorted(values))
    means = tuple(_average(values[step]) for step in steps)
    spread = tuple(_deviation(values[step]) for step in steps)
    return Series(x=steps, y=means, spread=spread if len(lines) > 1 else ())


def _average(values: Sequence[float]) -> float:
    """The mean, divided before it is summed, so that large losses do not overflow."""
    return sum(value / len(values) for value in values)


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0


def _shortened(line: LossCurve) -> LossCurve:
    """At most `MOST_POINTS` points: means over intervals, each at its last step."""
    width = math.ceil(len(line) / MOST_POINTS)
    parts = [line[at : at + width] for at in range(0, len(line), width)]
    return [(part[-1][0], _average([value for _, value in part])) for part in parts]


def measured_sections(diagnosed: Diagnosed) -> list[tuple[str, list[FigureSection]]]:
    """For each depth, the measures of `COMPARED`, at the start and at the end."""
    found = []
    for depth in dict.fromkeys(variant.layers for variant in diagnosed):
        models = [
            (variant.name_at_depth, variant.schemes, _join_stages(stages))
            for variant, stages in diagnosed.items()
            if variant.layers == depth
        ]
        if sections := figure_sections(models, anchor=f"depth-{depth_name(depth)}-"):
            found.append((depth_name(depth), sections))
    return found


def _join_stages(diagnosed: Mapping[Stage, Diagnosis]) -> list[Measurement]:
    """Each measure of `COMPARED` once, with the series, grids and facts of all stages."""
    found: dict[str, Measurement] = {}
    for stage, diagnosis in diagnosed.items():
        for measurement in diagnosis.measurements:
            if measurement.key in COMPARED:
                part = _at_stage(measurement, COMPARED[measurement.key], stage)
                before = found.get(measurement.key)
                found[measurement.key] = part if before is None else _concatenated(before, part)
    return list(found.values())


def _at_stage(measurement: Measurement, place: Location, stage: Stage) -> Measurement:
    """The values of a measurement for one part of the model, or all if it has none for it, marked with the stage."""
    fields = place.model_dump(exclude_none=True)
    is_there = bool(measurement.select(**fields))

    def marked(items: Iterable[Item]) -> tuple[Item, ...]:
        kept = (
            each
            for each in items
            if not is_there or all(getattr(each.location, name) == value for name, value in fields.items())
        )
        return tuple(each.model_copy(update={"stage": stage}) for each in kept)

    return measurement.model_copy(
        update={
            "series": marked(measurement.series),
            "grids": marked(measurement.grids),
            "facts": marked(measurement.facts),
        }
    )


def _concatenated(first: Measurement, second: Measurement) -> Measurement:
    return first.model_copy(
        update={
            "series": first.series + second.series,
            "grids": first.grids + second.grids,
            "facts": first.facts + second.facts,
        }
    )
