"""The whole examination: every measure that the subject allows, with its spread, and the verdicts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import torch

from lamina.diagnosis.depth import measure_depth
from lamina.diagnosis.judge import judge
from lamina.diagnosis.measures import NotMeasurable, adam_conditioning, matrix_updates
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import random_state_kept
from lamina.diagnosis.results import Diagnosis, Measure, Skipped
from lamina.diagnosis.sample import take_sample
from lamina.diagnosis.spread import PARTS, Findings, over_batches, over_seeds
from lamina.diagnosis.subject import Subject
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress

Over = Literal["seeds", "batches"]
NEEDS_TRAINING = (
    "it follows an optimiser at work, and needs training: lamina.watch(model, optimiser) around a loop of your own, "
    "or diagnose.every in a config"
)
MOVED = 2
"""At so many seeds weights are moved: it takes passes of its own."""
ALONE: dict[Over, str] = {
    "seeds": "one seed alone was looked at: numbers have no spread",
    "batches": "one batch alone was looked at, so numbers have no spread: give a list of batches, or one whose tensors "
    "agree on a first dimension along which it can be cut",
}


def examine(subject: Subject, *, seeds: int = 5, progress: Progress = no_progress) -> Diagnosis:
    """Measure a factory's models at the seeds 1, 2, …, or a module on its batches; then judge.

    The random state of the process is put back.
    """
    if seeds < 1:
        raise UserError(f"seeds is the number of models that a factory makes, at least 1, not {seeds}")
    began = time.perf_counter()
    models = seeds if subject.factory is not None else 1
    with random_state_kept():
        told = []
        for number in range(models):
            progress(subject.name, number, models + 1)
            told.append(_look(subject, number + 1))
        found = told[0] if subject.factory is None else over_seeds(told)
        progress(subject.name, models, models + 1)
        against_depth, missing = measure_depth(subject, found.anatomy)
    progress(subject.name, models + 1, models + 1)
    of_training, untrained = _of_training(subject)
    measures = [*found.measures(), *of_training, *against_depth]
    over: Over = "seeds" if subject.factory is not None else "batches"
    repeats = models if subject.factory is not None else len(subject.passes)
    notes = [*subject.notes, *found.notes, *([ALONE[over]] if repeats == 1 else [])]
    return Diagnosis(
        name=subject.name,
        model=found.anatomy.description,
        schemes=found.anatomy.schemes,
        spread_over=over,
        repeats=repeats,
        step=subject.step,
        seconds=time.perf_counter() - began,
        verdicts=judge(
            measures,
            schemes=found.anatomy.schemes,
            options=subject.thresholds,
            samples=found.concluded_samples(),
            scale=found.scale,
            highest_rate=subject.rate,
        ),
        measures=tuple(measures),
        skipped=_unmeasured(measures, [*found.skipped, *untrained, *missing]),
        notes=tuple(dict.fromkeys(notes)),
    )


def _look(subject: Subject, seed: int) -> Findings:
    """At one model; when this returns, neither it nor its gradients are left."""
    model = subject.build(seed)
    torch.manual_seed(seed)  # dropout
    if subject.factory is None:
        return over_batches(take_sample(model, subject.passes, parts=min(len(subject.passes), PARTS)))
    return over_batches(take_sample(model, subject.passes, moving=seed <= MOVED))


def _of_training(subject: Subject) -> tuple[list[Measure], list[Skipped]]:
    """κ of the state in which a run's optimiser was saved; what follows several steps needs training."""
    skipped = [Skipped(key=matrix_updates.MEASURE.key, reason=NEEDS_TRAINING)]
    reason = NEEDS_TRAINING
    if subject.optimiser is not None and subject.model is not None:
        try:
            return [adam_conditioning.take(subject.optimiser, find_layers(subject.model).matrices)], skipped
        except NotMeasurable as found:
            reason = str(found)
    return [], [Skipped(key=adam_conditioning.MEASURE.key, reason=reason), *skipped]


def _unmeasured(measures: Sequence[Measure], skipped: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """Each quantity once, and only if no sample had it."""
    measured = {each.key for each in measures}
    reasons = {each.key: each for each in reversed(skipped) if each.key not in measured}
    return tuple(reversed(reasons.values()))
