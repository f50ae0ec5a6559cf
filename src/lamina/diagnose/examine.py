"""The whole examination: every measure that the subject allows, with its spread, and the verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from lamina.data.progress import Progress, no_progress
from lamina.diagnose.depth import measure_depth
from lamina.diagnose.measure import NotMeasurable, combine, gradient_by_stream, take_all
from lamina.diagnose.own import own_stacks
from lamina.diagnose.passes import Pass, record_pass
from lamina.diagnose.record import Record
from lamina.diagnose.results import Diagnosis, Measure, Skipped
from lamina.diagnose.subject import Subject
from lamina.diagnose.verdicts import judge


def examine(subject: Subject, *, seeds: int = 5, progress: Progress = no_progress) -> Diagnosis:
    """Measure a factory's models at the seeds 1, 2, …, or a module on each of its batches; then judge.

    The random state of the process is put back.
    """
    began = time.perf_counter()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices):
        samples, skipped, first = [], [], None
        tries = list(_tries(subject, seeds))
        for number, (seed, passes) in enumerate(tries):
            progress(subject.name, number, len(tries) + 1)
            model = subject.build(seed)
            records = record_all(model, passes, subject.notes)
            taken, missing = _take(model, passes, records)
            samples.append(taken)
            skipped += missing
            first = first or (describe(model, records[0]), records[0])
        assert first is not None
        description, record = first
        progress(subject.name, len(tries), len(tries) + 1)
        taken, missing = measure_depth(subject, record)
    progress(subject.name, len(tries) + 1, len(tries) + 1)
    measures = combine(samples) + taken
    schemes = tuple(dict.fromkeys(stack.own.residual.name for stack in record.stacks if stack.own is not None))
    return Diagnosis(
        name=subject.name,
        model=description,
        schemes=schemes,
        spread_over="batches" if subject.factory is None else "seeds",
        repeats=len(samples),
        step=subject.step,
        seconds=time.perf_counter() - began,
        verdicts=judge(measures, schemes=schemes),
        measures=tuple(measures),
        skipped=_unmeasured(measures, skipped + missing),
        notes=tuple(dict.fromkeys(subject.notes)),
    )


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
    schemes = dict.fromkeys(stack.own.residual.name for stack in record.stacks if stack.own is not None)
    return ", ".join([f"{depths} {kind}", f"width {width}", *schemes])


def _tries(subject: Subject, seeds: int) -> Iterator[tuple[int, Sequence[Pass]]]:
    """Every seed with all batches, or the one model with each batch in turn."""
    if subject.factory is not None:
        yield from ((seed, subject.passes) for seed in range(1, seeds + 1))
    else:
        yield from ((0, [run]) for run in subject.passes)


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
