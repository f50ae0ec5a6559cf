"""Encoder–decoders at initialisation on batches of the embedded translation task: the setup `real` of the claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lamina.diagnosis.examine import examine_model
from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient, norms_by_layer
from lamina.diagnosis.recording.passes import gradients_of
from lamina.diagnosis.subject import Subject
from lamina.runs.diagnose import Extent, subject_at_initialisation
from lamina.runs.run import Run
from lamina.studies.result_table import Label, ResultRow
from lamina.studies.study import StudyContext
from lamina.training.config import RunConfig

EXTENT = Extent(batches=4, tokens=512, depths=False)


def initial_subject(
    context: StudyContext, residual: str | Sequence[str], depth: int | tuple[int, int], **model: Any
) -> Subject:
    """The subject that builds a model of the scheme and depth for every seed, without dropout."""
    width = context.choose(micro=8, otherwise=128)
    sizes = {"model_dim": width, "feed_forward_dim": 2 * width, "num_heads": 2, "dropout": 0.0}
    chosen = {**sizes, "residual": residual, "num_layers": depth, **model}
    values = {"task": "translation", "model": chosen, "train": {"threads": 1}}
    run = Run(RunConfig.read(values, where="the study"), context.folder / "initial")
    return subject_at_initialisation(run, run.open_store(), EXTENT)


def expected_gradients(subject: Subject, seed: int) -> dict[tuple[str, str], dict[int, float]]:
    """‖E[∂L/∂W]‖ of the model of one seed, by stack and kind of matrix, then by layer from 1."""
    model, expected = subject.build(seed), ExpectedGradient()
    for run in subject.passes:
        expected.add(gradients_of(model, run))
    return norms_by_layer(expected.mean())


def measure_initial(subject: Subject, seed: int) -> dict[str, Measurement]:
    """All measures of records and gradients of the model of one seed, by key."""
    examined = examine_model(subject.build(seed), subject.passes)
    return {each.key: each for each in examined.measurements}


def rows_of(measurement: Measurement, quantity: str, along: str, seed: int, **labels: Label) -> Iterator[ResultRow]:
    """The measured series as rows: stack and matrix become labels, and x the label `along`."""
    for series in measurement.measured:
        place = series.location
        own = {"stack": place.stack, "matrix": place.matrix, "kind": place.sublayer_kind, "stream": place.stream}
        known = {name: value for name, value in own.items() if value is not None}
        for x, y in zip(series.x, series.y, strict=True):
            yield ResultRow(quantity=quantity, value=y, seed=seed, labels={**labels, **known, along: x})
