"""Encoder–decoders at initialisation on batches of the embedded translation task: the setup `real` of the claims."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Any

import torch

from lamina.diagnosis.measures.base import require
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient, norms_by_layer
from lamina.diagnosis.recording.own import own_stacks, recording
from lamina.diagnosis.recording.passes import gradients_of
from lamina.diagnosis.recording.records import StackRecord
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.subject import Subject
from lamina.model.stack import Stack
from lamina.runs.diagnose import Extent, subject_at_initialisation
from lamina.runs.run import Run
from lamina.studies.study import StudyContext
from lamina.training.config import RunConfig

EXTENT = Extent(batches=4, tokens=512, depths=False)
SUBSTITUTION = "the papers' translation data: the embedded language pair, models of width 128"
"""What stands for the papers' data and sizes at scale `tiny`."""


def initial_subject(
    context: StudyContext,
    residual: str | Sequence[str],
    depth: int | tuple[int, int],
    extent: Extent = EXTENT,
    **model: Any,
) -> Subject:
    """The subject that builds a model of the scheme and depth for every seed, without dropout."""
    width = context.choose(micro=8, otherwise=128)
    sizes = {"model_dim": width, "feed_forward_dim": 2 * width, "num_heads": 2, "dropout": 0.0}
    chosen = {**sizes, "residual": residual, "num_layers": depth, **model}
    values = {"task": "translation", "model": chosen, "train": {"threads": 1}}
    run = Run(RunConfig.read(values, where="the study"), context.folder / "initial")
    return subject_at_initialisation(run, run.open_store(), extent)


def record_stacks(subject: Subject, seed: int) -> dict[str, StackRecord]:
    """The records of the encoder and the decoder of one seed's model, from one pass over the first batch."""
    model = subject.build(seed)
    with recording(model) as found:
        torch.autograd.backward(subject.passes[0](model))
    return {each.name: each for each in found.stacks}


def expected_gradients(subject: Subject, seed: int) -> dict[tuple[str, str], dict[int, float]]:
    """‖E[∂L/∂W]‖ of the model of one seed, by stack and kind of matrix, then by layer from 1."""
    model, expected = subject.build(seed), ExpectedGradient()
    for run in subject.passes:
        expected.add(gradients_of(model, run))
    return norms_by_layer(expected.mean())


def expected_block_gradients(subject: Subject, seed: int) -> dict[str, list[float]]:
    """‖E[∂L/∂w_k]‖ of the model of one seed, by stack, w_k all matrices of sub-layer k."""
    model = subject.build(seed)
    for run in subject.passes:
        torch.autograd.backward(run(model) / len(subject.passes))
    return {path: block_gradients(stack) for path, stack in own_stacks(model)}


def block_gradients(stack: Stack) -> list[float]:
    """The gradient norm over the matrices of each sub-layer, after a backward pass."""
    blocks = [sublayer for layer in stack.layers for sublayer in layer.sublayers]
    return [
        hypot(*(norm_of(require(each.grad)).item() for each in block.parameters() if each.dim() > 1))
        for block in blocks
    ]
