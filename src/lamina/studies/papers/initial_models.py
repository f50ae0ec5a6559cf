"""Encoder–decoders at initialisation on batches of the embedded translation task: the setup `real` of the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina.diagnosis.measures.layer_gradients import ExpectedGradient, norms_by_layer
from lamina.diagnosis.recording.passes import gradients_of
from lamina.diagnosis.subject import Subject
from lamina.runs.diagnose import Extent, subject_at_initialisation
from lamina.runs.run import Run
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
