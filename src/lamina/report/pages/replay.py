"""The page of a replayed step: its loss and gradient, every matrix by layer, and the examples of its batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lamina.diagnosis.measurement import Axes, Description, Location, Measurement, Series
from lamina.diagnosis.watching.observation import MatrixObservation, Observation
from lamina.formatting import short, with_escapes
from lamina.report.figures.section import figure_sections
from lamina.report.pages.page import form_of, render, write_text
from lamina.report.tables import Table
from lamina.runs.replay import Replay

GRADIENTS = Description(
    key="replayed-gradients",
    title="Gradient norms by layer",
    formula="‖∂L/∂W‖ of this step, after clipping",
    source="",
    look_for="A layer or a kind of matrix far above the others is where a spike comes from.",
    axes=Axes(x="layer", y="gradient norm", log_y=True),
)
UPDATES = Description(
    key="replayed-updates",
    title="Updates by layer, relative to the weights",
    formula="‖W_{t+1} − W_t‖ ÷ ‖W_t‖",
    source="",
    look_for="Healthy updates are about 10⁻³ of the weights at the peak of the learning rate; 10⁻² is large.",
    axes=Axes(x="layer", y="update ÷ weight", log_y=True),
)
STREAMS = Description(
    key="replayed-streams",
    title="The residual stream after every layer",
    formula="√(mean x²)",
    source="",
    look_for="The residual stream is the sum to which all layers add. It should not grow by factors between layers.",
    axes=Axes(x="layer", y="root mean square", log_y=True),
)


def save_replay(replay: Replay, file: Path) -> None:
    """Write the page as .html or .md."""
    write_text(file, replay_page(replay, form_of(file)))


def replay_page(replay: Replay, form: str = "html") -> str:
    measurements = [] if replay.observation is None else layer_measurements(replay.observation)
    return render(
        "replay",
        form,
        title=f"Step {replay.step:,} of {replay.run.name}",
        summary=summary_table(replay),
        comparison=compare_loss(replay),
        divergence=replay.divergence,
        alarms=[str(each) for each in replay.alarms],
        sections=figure_sections([(replay.run.name, (), measurements)]),
        matrices=matrix_table(replay.observation) if replay.observation is not None else None,
        examples=example_table(replay),
    )


def summary_table(replay: Replay) -> Table:
    """The numbers of the step."""
    rows = [("learning rate", short(replay.learning_rate))]
    if replay.update is not None:
        rows.insert(0, ("loss", f"{replay.update.loss:.6g}"))
        rows += [("gradient norm before clipping", short(replay.update.gradient_norm, 4))]
        rows += [("labels", f"{replay.update.labels:,}")]
        if not replay.update.applied:
            rows.append(("weights", "not changed: gradients overflowed, and the step was skipped"))
    rows += [("batch", f"{replay.batch} of epoch {replay.epoch}, {len(replay.examples):,} examples")]
    start = f"the checkpoint of step {replay.repeated_from:,}" if replay.repeated_from else "the start of the run"
    rows += [("repeated from", start)]
    return Table("", ("", "value"), tuple(rows))


def compare_loss(replay: Replay) -> str:
    """Whether the replayed step is that of the run."""
    if replay.update is None:
        return ""
    if replay.recorded_loss is None:
        return "The run's metrics have no loss of this step, as train.log_every is larger than 1: not compared."
    if replay.is_identical:
        return "The loss has the same bits as in the run's metrics."
    return (
        f"The loss is {replay.update.loss!r}, but {replay.recorded_loss!r} in the run's metrics: another machine, "
        "number of processes or threads, or version of torch or Lamina rounds differently."
    )


def layer_measurements(observation: Observation) -> list[Measurement]:
    """Gradients, updates and streams with the layer on the axis."""
    found = [
        _by_layer(GRADIENTS, observation, lambda each: each.gradient_norm),
        _by_layer(UPDATES, observation, lambda each: each.relative_update),
    ]
    streams = [
        Series(
            location=Location(stack=each.stack),
            x=tuple(range(1, len(each.root_mean_squares) + 1)),
            y=each.root_mean_squares,
        )
        for each in observation.streams
    ]
    return [*found, *([Measurement(about=STREAMS, series=tuple(streams))] if streams else [])]


def _by_layer(
    about: Description, observation: Observation, value: Callable[[MatrixObservation], float | None]
) -> Measurement:
    kinds: dict[Location, dict[int, float]] = {}
    for each in observation.matrices:
        number = value(each)
        if each.location.layer is not None and number is not None:
            kind = each.location.model_copy(update={"layer": None})
            kinds.setdefault(kind, {})[each.location.layer] = number
    series = [
        Series(location=kind, x=tuple(map(float, layers)), y=tuple(layers.values())) for kind, layers in kinds.items()
    ]
    return Measurement(about=about, series=tuple(series))


def matrix_table(observation: Observation, most: int = 20) -> Table:
    """The matrices with the largest gradients."""
    largest = sorted(observation.matrices, key=lambda each: -each.gradient_norm)
    rows = tuple(
        (
            str(each.location),
            short(each.gradient_norm),
            short(each.update_norm),
            "–" if each.relative_update is None else short(each.relative_update),
        )
        for each in largest[:most]
    )
    remark = f"The {most} largest of {len(largest)}." if len(largest) > most else ""
    return Table("", ("matrix", "gradient norm", "update norm", "update ÷ weight"), rows, remark)


def example_table(replay: Replay, most: int = 200) -> Table:
    """The texts of the batch; signs that cannot be seen are written as escapes."""
    names = list(dict.fromkeys(name for each in replay.examples.values() for name in each))
    shown: Sequence[int] = list(replay.examples)[:most]
    rows = tuple((str(at), *(with_escapes(replay.examples[at].get(name, "")) for name in names)) for at in shown)
    remark = f"{most} of {len(replay.examples):,} examples." if len(replay.examples) > most else ""
    return Table("", ("example", *names), rows, remark)
