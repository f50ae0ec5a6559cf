"""Gradients and changes of the stream, block by block, in encoder–decoders at initialisation under ResiDual and others.

Xie et al. 2023, figure 2, equations 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot, sqrt

import torch

from lamina.diagnosis.measures.base import require
from lamina.diagnosis.measures.gradient_by_stream import split
from lamina.diagnosis.measures.hidden_change import changes
from lamina.diagnosis.measures.reading import branch_of, stream, variance
from lamina.diagnosis.recording.own import own_stacks
from lamina.diagnosis.recording.records import StackRecord
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.subject import Subject
from lamina.studies.papers.initial_models import expected_block_gradients, initial_subject, record_stacks
from lamina.studies.result_table import Label, ResultRow, row
from lamina.studies.study import StudyContext

SCHEMES = ("post-ln", "pre-ln", "resi-dual")


def measure_models(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Gradients, changes and shares of all blocks of the three methods, 18-18."""
    depth = context.choose(micro=6, otherwise=18)
    subjects = {scheme: initial_subject(context, scheme, (depth, depth)) for scheme in SCHEMES}
    encoders = {}
    for scheme, subject in subjects.items():
        for name, norms in expected_block_gradients(subject, seed).items():
            yield from _gradients(norms, seed, scheme=scheme, stack=name, depth=depth)
        records = record_stacks(subject, seed)
        encoders[scheme] = records["encoder"]
        for record in records.values():
            yield from _changes(record, seed, scheme)
    difference = largest_difference(encoders["post-ln"], encoders["resi-dual"])
    yield row("difference of the streams", difference, seed)
    yield from _parts(subjects["resi-dual"], seed)


def _gradients(norms: list[float], seed: int, *, scheme: str, stack: str, depth: int) -> Iterator[ResultRow]:
    per_layer = len(norms) // depth
    for k, norm in enumerate(norms, start=1):
        yield row("gradient", norm, seed, scheme=scheme, stack=stack, block=k, distance=len(norms) - k)
    for layer in range(depth):
        total = hypot(*norms[layer * per_layer : (layer + 1) * per_layer])
        yield row("gradient of a layer", total, seed, scheme=scheme, stack=stack, layer=layer + 1)


def _changes(record: StackRecord, seed: int, scheme: str) -> Iterator[ResultRow]:
    for sublayer, change in zip(record.sublayers, changes(record), strict=True):
        place: dict[str, Label] = {
            "scheme": scheme,
            "stack": record.name,
            "kind": sublayer.place.kind,
            "block": sublayer.place.index + 1,
        }
        yield row("change", change, seed, layer=sublayer.place.layer + 1, **place)
        branch = branch_of(record, sublayer)
        total = (sublayer.before[0].value + branch.value).var(correction=0).item()
        yield row("share of the branch", sqrt(variance(record, branch) / total), seed, **place)


def largest_difference(one: StackRecord, other: StackRecord) -> float:
    """The largest difference between the first streams of two stacks."""
    pairs = zip(stream(one), stream(other), strict=True)
    return max((mine.value - yours.value).abs().max().item() for mine, yours in pairs)


def _parts(subject: Subject, seed: int) -> Iterator[ResultRow]:
    """The gradients of a ResiDual decoder that arrive through x and through the dual stream, and the error of their
    sum."""
    model, run = subject.build(seed), subject.passes[0]
    decoder = dict(own_stacks(model))["decoder"]
    parts = {name: split(model, run, decoder, number) for number, name in enumerate(decoder.residual.streams)}
    for name, gradients in parts.items():
        for k, block in enumerate(gradients, start=1):
            yield row(
                "part of the gradient", hypot(*(norm_of(each).item() for each in block)), seed, stream=name, block=k
            )
    torch.autograd.backward(run(model))
    errors = []
    for entry, one, other in zip(decoder.entries, *parts.values(), strict=True):
        weights = dict.fromkeys(matrix.parameter for matrix in entry.matrices)
        for weight, through_x, through_dual in zip(weights, one, other, strict=True):
            errors.append((require(weight.grad) - through_x - through_dual).abs().max().item())
    yield row("error of the sum of the parts", max(errors), seed)
