"""The whole examination: every measure that the subject allows, with its spread, and the verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from lamina.data.progress import Progress, no_progress
from lamina.diagnose.depth import measure_depth
from lamina.diagnose.measure import NotMeasurable, combine, gradient_by_stream, take_all
from lamina.diagnose.measure.reading import placement_of
from lamina.diagnose.own import own_stacks
from lamina.diagnose.passes import Pass, record_pass
from lamina.diagnose.record import Record
from lamina.diagnose.results import Diagnosis, Measure, Skipped
from lamina.diagnose.subject import Subject, random_state_kept
from lamina.diagnose.verdicts import judge
from lamina.residual.base import Placement


@dataclass(frozen=True)
class Sample:
    """What one model told, at one seed or on one batch. The model and its records are gone by then: they are large."""

    measures: list[Measure]
    skipped: list[Skipped]
    description: str
    schemes: tuple[str, ...]
    sublayers_per_layer: int
    """Of the first stack …"""
    placement: Placement | None
    """… and where its norms stand."""


def examine(subject: Subject, *, seeds: int = 5, progress: Progress = no_progress) -> Diagnosis:
    """Measure a factory's models at the seeds 1, 2, …, or a module on each of its batches; then judge.

    The random state of the process is put back.
    """
    began = time.perf_counter()
    with random_state_kept():
        samples, tries = [], list(_tries(subject, seeds))
        for number, (seed, passes) in enumerate(tries):
            progress(subject.name, number, len(tries) + 1)
            samples.append(_sample(subject, seed, passes))
        progress(subject.name, len(tries), len(tries) + 1)
        first = samples[0]
        against_depth, missing = measure_depth(subject, first.sublayers_per_layer, first.placement)
    progress(subject.name, len(tries) + 1, len(tries) + 1)
    measures = combine([each.measures for each in samples]) + against_depth
    return Diagnosis(
        name=subject.name,
        model=first.description,
        schemes=first.schemes,
        spread_over="batches" if subject.factory is None else "seeds",
        repeats=len(samples),
        step=subject.step,
        seconds=time.perf_counter() - began,
        verdicts=judge(measures, schemes=first.schemes, options=subject.thresholds),
        measures=tuple(measures),
        skipped=_unmeasured(measures, [*(skipped for each in samples for skipped in each.skipped), *missing]),
        notes=tuple(dict.fromkeys(subject.notes)),
    )


def _sample(subject: Subject, seed: int, passes: Sequence[Pass]) -> Sample:
    model = subject.build(seed)
    torch.manual_seed(seed)  # dropout
    records = record_all(model, passes, subject.notes)
    measures, skipped = _take(model, passes, records)
    stack = records[0].stacks[0]
    per_layer = len(stack.sublayers) // stack.num_layers
    return Sample(measures, skipped, describe(model, records[0]), _schemes(records[0]), per_layer, placement_of(stack))


def record_all(model: nn.Module, passes: Sequence[Pass], notes: list[str]) -> list[Record]:
    """A record of every pass; what there is to say about them is added to the notes."""
    records = []
    for run in passes:
        record, said = record_pass(model, run)
        records.append(record)
        notes += said
    return records


def describe(model: nn.Module, record: Record) -> str:
    """`6-6 encoder-decoder, width 512, b2t`."""
    kind = getattr(getattr(model, "options", None), "kind", None) or type(model).__name__
    depths = "-".join(str(stack.num_layers) for stack in record.stacks)
    width = record.stacks[0].input.value.shape[-1]
    return ", ".join([f"{depths} {kind}", f"width {width}", *_schemes(record)])


def _schemes(record: Record) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stack.own.residual.name for stack in record.stacks if stack.own is not None))


def _tries(subject: Subject, seeds: int) -> Iterator[tuple[int, Sequence[Pass]]]:
    """Every seed with all batches, or the one model with each batch in turn and a seed for its dropout."""
    if subject.factory is not None:
        yield from ((seed, subject.passes) for seed in range(1, seeds + 1))
    else:
        yield from ((number, [run]) for number, run in enumerate(subject.passes))


def _take(model: nn.Module, passes: Sequence[Pass], records: Sequence[Record]) -> tuple[list[Measure], list[Skipped]]:
    measures, skipped = take_all(records)
    if _splits_by_stream(model):
        try:
            measures.append(gradient_by_stream.take(model, passes[0]))
        except NotMeasurable as reason:
            skipped.append(Skipped(key=gradient_by_stream.MEASURE.key, reason=str(reason)))
    return measures, skipped


def _splits_by_stream(model: nn.Module) -> bool:
    """Whether some stack has several streams, and all have matrices that are known by role."""
    stacks = [stack for _, stack in own_stacks(model)]
    several = any(len(stack.residual.streams) > 1 for stack in stacks)
    return several and all(any(part.matrices for part in stack.parts) for stack in stacks)


def _unmeasured(measures: Sequence[Measure], skipped: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """Each quantity once, and only if no sample had it."""
    measured = {each.key for each in measures}
    reasons = {each.key: each for each in reversed(skipped) if each.key not in measured}
    return tuple(reversed(reasons.values()))
