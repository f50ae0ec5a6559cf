"""The examination of a subject: every measure that its evidence allows, with its spread, and the checks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer

from lamina.diagnosis.checks import run_checks
from lamina.diagnosis.lacking import lacking, left_out_of_quick
from lamina.diagnosis.measurement import Measurement, NotMeasured
from lamina.diagnosis.measures import MEASURES, all_measures, measures_that_need, take
from lamina.diagnosis.measures.base import Evidence, Measure, ModelStructure, Need, NotMeasurable, require
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient
from lamina.diagnosis.measures.reading import placements
from lamina.diagnosis.measures.statistics import average, with_spread
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import Pass, random_state_kept, record_pass
from lamina.diagnosis.recording.records import Record
from lamina.diagnosis.results import Diagnosis, ModelFacts
from lamina.diagnosis.subject import Subject
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress

SpreadOver = Literal["seeds", "batches"]
QUICK_SEEDS = 2
"""The largest number of seeds of a quick diagnosis."""
PARTS = 8
"""The largest number of parts that the batches of one model are divided into; a sum of gradients is kept for each."""
NO_SPREAD: dict[SpreadOver, str] = {
    "seeds": "only one seed was examined, so numbers have no spread",
    "batches": "only one batch was examined, so numbers have no spread: give a list of batches, or a batch whose "
    "tensors have the same first dimension, along which it can be split",
}


@dataclass(frozen=True)
class Examined:
    """The measurements of one model, or the means over several, and the samples that their spread comes from."""

    structure: ModelStructure
    measurements: list[Measurement]
    not_measured: list[NotMeasured]
    notes: list[str]
    samples: list[list[Measurement]]
    scale: float = 1.0
    """The standard deviation over the samples is multiplied by this."""


def examine(subject: Subject, *, seeds: int = 5, quick: bool = False, progress: Progress = no_progress) -> Diagnosis:
    """Measure a factory's models at the seeds 1, 2, …, or a module on its batches; then run the checks.

    quick: leave out the measures that take most of the time, and build at most `QUICK_SEEDS` models.
    The random state of the process is restored.
    """
    if seeds < 1:
        raise UserError(f"seeds is the number of models that a factory builds, at least 1, not {seeds}")
    began = time.perf_counter()
    models = 1 if subject.factory is None else min(seeds, QUICK_SEEDS) if quick else seeds
    over: SpreadOver = "seeds" if subject.factory is not None else "batches"
    with random_state_kept():
        found = []
        for number in range(models):
            progress(subject.name, number, models + 1)
            found.append(_examine_seed(subject, number + 1, quick))
        examined = found[0] if subject.factory is None else _over_seeds(found)
        progress(subject.name, models, models + 1)
        further, missing = _take_rest(subject, examined.structure, quick)
    progress(subject.name, models + 1, models + 1)
    samples = [conclude(sample) for sample in examined.samples]
    measurements = [*combine(examined.measurements, samples, examined.scale), *further]
    measurements.sort(key=_position)
    not_measured = _only_missing(measurements, [*examined.not_measured, *missing])
    repeats = models if subject.factory is not None else len(subject.passes)
    notes = [*subject.notes, *examined.notes, *([NO_SPREAD[over]] if repeats == 1 else [])]
    return Diagnosis(
        name=subject.name,
        model=examined.structure.description,
        schemes=examined.structure.schemes,
        output_stack=examined.structure.output_stack,
        facts=examined.structure.facts,
        stage=subject.stage,
        spread_over=over,
        repeats=repeats,
        seconds=time.perf_counter() - began,
        findings=run_checks(
            measurements,
            not_measured,
            schemes=examined.structure.schemes,
            thresholds=subject.thresholds,
            learning_rate=subject.learning_rate,
            warmup=subject.warmup,
            placements=[] if examined.structure.schemes else list(examined.structure.placements.values()),
            samples=samples,
            scale=examined.scale,
        ),
        measurements=tuple(measurements),
        not_measured=not_measured,
        notes=tuple(dict.fromkeys(notes)),
    )


def _examine_seed(subject: Subject, seed: int, quick: bool) -> Examined:
    """Build and measure one model; neither it nor its gradients are kept."""
    model = subject.build(seed)
    torch.manual_seed(seed)  # dropout
    parts = min(len(subject.passes), PARTS) if subject.factory is None else 1
    with_passes = [
        each
        for each in measures_that_need("model")
        if (each.max_seeds is None or seed <= each.max_seeds) and (each.quick or not quick)
    ]
    return examine_model(
        model,
        subject.passes,
        parts=parts,
        with_passes=with_passes,
        optimiser=subject.optimiser_of(model),
        learning_rate=subject.learning_rate,
    )


def examine_model(
    model: nn.Module,
    passes: Sequence[Pass],
    *,
    parts: int = 1,
    with_passes: Sequence[Measure] = (),
    optimiser: Optimizer | None = None,
    learning_rate: float | None = None,
) -> Examined:
    """Measure one model on all batches, with a jackknife over `parts` of them.

    Records are large: each is reduced to its measurements before the next one is made. `with_passes` are measures that
    run the model themselves: on every batch if the spread is over batches, else on the first.
    """
    gradients = ExpectedGradient(parts)
    batches: list[_BatchResults] = []
    for number, run in enumerate(passes):
        own_passes = [each for each in with_passes if number == 0 or (parts > 1 and not each.first_batch_only)]
        of_model = Evidence(model=model, passes=[run], optimiser=optimiser, learning_rate=learning_rate)
        batches.append(_examine_batch(of_model, gradients, own_passes))
    structure = batches[0].structure

    def mean(without: int | None = None) -> tuple[list[Measurement], list[NotMeasured]]:
        """The mean over all batches, or without one part; gradients are averaged before their norm is taken."""
        kept = [batch for number, batch in enumerate(batches) if without is None or number % parts != without]
        means, missing = average_all([batch.measurements for batch in kept])
        try:
            expected = Evidence(structure=structure, gradients=gradients.mean(without))
        except NotMeasurable as reason:
            of_gradients = measures_that_need("gradients")
            return means, [*(NotMeasured(key=each.key, reason=str(reason)) for each in of_gradients), *missing]
        measured, unmeasured = _sorted_out(take(each, expected) for each in measures_that_need("gradients"))
        return [*measured, *means], [*unmeasured, *missing]

    whole, missing = mean()
    without_each = [mean(without=part)[0] for part in range(parts)] if parts > 1 else []
    scale = (parts - 1) * (len(batches) / parts) ** 0.5  # of the jackknife's pseudo-values, see `statistics`
    not_measured = [each for batch in batches for each in batch.not_measured]
    notes = [note for batch in batches for note in batch.notes]
    return Examined(structure, whole, [*not_measured, *missing], notes, without_each, scale)


@dataclass(frozen=True)
class _BatchResults:
    """The results of one batch, which remain after its record is released."""

    structure: ModelStructure
    measurements: list[Measurement]
    not_measured: list[NotMeasured]
    notes: list[str]


def _examine_batch(of_model: Evidence, gradients: ExpectedGradient, with_passes: Sequence[Measure]) -> _BatchResults:
    """Record one pass and reduce the record to measurements; its gradients are added to the sums."""
    model = require(of_model.model)
    record, notes = record_pass(model, of_model.passes[0])
    structure = structure_of(model, record)
    gradients.add(record.gradients)
    of_record = Evidence(structure=structure, record=record)
    found = [take(each, of_record) for each in measures_that_need("record")]
    del record, of_record  # released before the measures with passes of their own
    of_model = replace(of_model, structure=structure)
    found += [take(each, of_model) for each in with_passes]
    return _BatchResults(structure, *_sorted_out(found), notes)


def _sorted_out(found: Iterable[Measurement | NotMeasured]) -> tuple[list[Measurement], list[NotMeasured]]:
    found = list(found)
    measured = [each for each in found if isinstance(each, Measurement)]
    return measured, [each for each in found if isinstance(each, NotMeasured)]


def structure_of(model: nn.Module, record: Record) -> ModelStructure:
    first = record.stacks[0]
    kind = getattr(getattr(model, "options", None), "kind", None) or type(model).__name__
    depths = "-".join(str(stack.num_layers) for stack in record.stacks)
    schemes = tuple(dict.fromkeys(stack.own.residual.name for stack in record.stacks if stack.own is not None))
    shape = first.input.value.shape
    facts = ModelFacts(
        layers={stack.name: stack.num_layers for stack in record.stacks},
        placements=placements(record.stacks),
        width=shape[-1],
        parameters=sum(each.numel() for each in model.parameters()),
        trained=sum(each.numel() for each in model.parameters() if each.requires_grad),
        batch=tuple(shape[:-1]),
    )
    return ModelStructure(
        facts=facts,
        description=", ".join([f"{depths} {kind}", f"width {first.input.value.shape[-1]}", *schemes]),
        schemes=schemes,
        placements=placements(record.stacks),
        sublayers_per_layer=len(first.sublayers) // first.num_layers,
        output_stack=find_layers(model).output_stack,
    )


def average_all(samples: Sequence[Sequence[Measurement]]) -> tuple[list[Measurement], list[NotMeasured]]:
    """The mean of every measure over the samples that have it, and the measures that have no mean."""
    means, missing = [], []
    for key in dict.fromkeys(each.key for sample in samples for each in sample):
        try:
            means.append(average([each for sample in samples for each in sample if each.key == key]))
        except NotMeasurable as reason:
            missing.append(NotMeasured(key=key, reason=str(reason)))
    return means, missing


def _over_seeds(models: Sequence[Examined]) -> Examined:
    samples = [each.measurements for each in models]
    means, missing = average_all(samples)
    not_measured = [each for model in models for each in model.not_measured]
    notes = [note for model in models for note in model.notes]
    return Examined(models[0].structure, means, [*not_measured, *missing], notes, samples)


def conclude(measurements: Iterable[Measurement]) -> list[Measurement]:
    """The measurements, with the facts that follow from their values, such as slopes."""
    return [MEASURES[each.key]().conclude(each) for each in measurements]


def combine(
    measurements: Iterable[Measurement], samples: Sequence[Sequence[Measurement]], scale: float = 1.0
) -> list[Measurement]:
    """The concluded measurements, with their spread over the concluded samples times `scale`."""
    return [
        with_spread(whole, [each for sample in samples for each in sample if each.key == whole.key], scale)
        for whole in conclude(measurements)
    ]


def _take_rest(subject: Subject, structure: ModelStructure, quick: bool) -> tuple[list[Measurement], list[NotMeasured]]:
    """The measures that need an optimiser or models of several depths, and those for which there is no evidence."""
    evidence = Evidence(
        structure=structure,
        model=subject.model,
        optimiser=subject.trained_optimiser,
        learning_rate=subject.learning_rate,
        factory=subject.factory if subject.any_depth else None,
        passes=subject.passes,
        depths=subject.depths,
        of_width=subject.of_width,
        widths=subject.widths,
    )
    needs: list[Need] = [need for need in ("optimiser", "factory", "widths") if need in evidence.available]
    chosen = [each for each in all_measures() if set(needs) & set(each.needs) and (each.quick or not quick)]
    measured, unmeasured = _sorted_out(take(each, evidence) for each in chosen)
    missing = [*unmeasured, *lacking({"record", "gradients", "model", *needs})]
    return measured, [*left_out_of_quick(), *missing] if quick else missing


def _only_missing(measured: Sequence[Measurement], missing: Sequence[NotMeasured]) -> tuple[NotMeasured, ...]:
    """Each measure once, with its first reason, and only if no sample has it."""
    keys = {each.key for each in measured}
    reasons = {each.key: each for each in reversed(missing) if each.key not in keys}
    return tuple(reversed(reasons.values()))


def _position(measurement: Measurement) -> tuple[int, str]:
    return MEASURES[measurement.key].position, measurement.key
