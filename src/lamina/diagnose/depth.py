"""The measures that compare models of several depths, and so need a factory that takes one.

They look at one batch and at few seeds: what they show, a power or a shape, hardly spreads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from lamina.diagnose.layers import find_layers
from lamina.diagnose.measure import NotMeasurable, gradient_against_depth, output_change
from lamina.diagnose.measure.reading import placement_of, positions
from lamina.diagnose.own import own_stacks
from lamina.diagnose.passes import Pass, record_pass, recording
from lamina.diagnose.record import Record
from lamina.diagnose.results import Measure, Skipped
from lamina.diagnose.subject import Subject

SEEDS = (1, 2)
OUTPUT_DEPTHS = (2, 4, 8, 16)
NEEDS_FACTORY = (
    "it compares models of several depths, and needs a config or a factory that takes num_layers: "
    "lamina.diagnose(lambda seed, num_layers=…: …, batch)"
)


def measure_depth(subject: Subject, record: Record) -> tuple[list[Measure], list[Skipped]]:
    """`record` is one of the subject's own depth."""
    keys = (gradient_against_depth.MEASURE.key, output_change.MEASURE.key)
    if subject.factory is None or not subject.any_depth:
        return [], [Skipped(key=key, reason=NEEDS_FACTORY) for key in keys]
    factory, run = subject.factory, subject.passes[0]
    stack = record.stacks[0]
    measures, skipped = [], []
    for key, measure in zip(
        keys,
        (
            partial(gradient_against_depth.against_depth, factory, partial(_records, run), SEEDS),
            partial(
                output_change.against_depth,
                factory,
                partial(_first_output, run),
                _first_matrices,
                SEEDS,
                OUTPUT_DEPTHS,
                sublayers_per_layer=len(stack.sublayers) // stack.num_layers,
                placement=placement_of(stack),
            ),
        ),
        strict=True,
    ):
        try:
            measures.append(measure())
        except NotMeasurable as reason:
            skipped.append(Skipped(key=key, reason=str(reason)))
    return measures, skipped


def _records(run: Pass, model: nn.Module) -> list[Record]:
    return [record_pass(model, run)[0]]


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
