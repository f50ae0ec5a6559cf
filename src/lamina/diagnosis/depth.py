"""The measures that compare models of several depths, and so need a factory that takes one.

They look at few seeds and batches, for what they show, a power or a shape, hardly spreads; the change of the output, a
mean over tokens, is that of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures import NotMeasurable, gradient_against_depth, output_change
from lamina.diagnosis.measures.reading import positions
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.own import own_stacks
from lamina.diagnosis.recording.passes import Pass, recording
from lamina.diagnosis.results import Measure, Skipped
from lamina.diagnosis.sample import Anatomy
from lamina.diagnosis.subject import Subject

SEEDS = (1, 2)
BATCHES = 2
NEEDS_FACTORY = (
    "it compares models of several depths, and needs a config or a factory that takes num_layers: "
    "lamina.diagnose(lambda seed, num_layers=…: …, batch)"
)


def measure_depth(subject: Subject, anatomy: Anatomy) -> tuple[list[Measure], list[Skipped]]:
    factory = subject.factory
    if factory is None or not subject.any_depth:
        keys = (gradient_against_depth.MEASURE.key, output_change.MEASURE.key)
        return [], [Skipped(key=key, reason=NEEDS_FACTORY) for key in keys]
    measures, skipped = [], []
    placed = list(anatomy.placements.values())
    try:
        measures.append(
            gradient_against_depth.against_depth(factory, subject.passes[:BATCHES], SEEDS, placement=placed[-1])
        )
    except NotMeasurable as reason:  # no feed-forward matrix is known
        skipped.append(Skipped(key=gradient_against_depth.MEASURE.key, reason=str(reason)))
    measures.append(
        output_change.against_depth(
            factory,
            partial(_first_output, subject.passes[0]),
            _first_matrices,
            SEEDS,
            sorted(set(subject.depths)),
            sublayers_per_layer=anatomy.sublayers_per_layer,
            placement=placed[0],
        )
    )
    return measures, skipped


def _first_matrices(model: nn.Module) -> Sequence[nn.Parameter]:
    """The weight matrices of the first stack, each once."""
    found = find_layers(model)
    first = next(iter(found.layers))
    return list(dict.fromkeys(each.parameter for each in found.matrices if each.name.stack == first))


class _Enough(Exception):
    """The first stack is through; what would come after it is not needed."""


def _first_output(run: Pass, model: nn.Module) -> Tensor:
    """The output of the first stack, with its final norm, at real positions."""
    stacks = own_stacks(model)
    if not stacks:
        with recording(model) as recorder:
            run(model)
        return positions(recorder.stacks[0], recorder.stacks[0].output)
    outputs: list[Tensor] = []

    def stop(stack: nn.Module, arguments: object, output: Tensor) -> None:
        outputs.append(output)
        raise _Enough

    handle = stacks[0][1].register_forward_hook(stop)
    try:
        with torch.no_grad():
            run(model)
    except _Enough:
        pass
    finally:
        handle.remove()
    return outputs[0].flatten(0, -2)
