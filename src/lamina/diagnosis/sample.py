"""What one model tells, batch by batch.

Records are large: each is reduced to its measures before the next one is taken, and of the gradients only sums are
kept. A diagnosis needs little more memory than a training step, however many batches there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from torch import nn

from lamina.diagnosis.measures import (
    BY_BATCH,
    NotMeasurable,
    average_all,
    gradient_by_layer,
    gradient_by_stream,
    gradient_when_moved,
    take_all,
)
from lamina.diagnosis.measures.expected_gradient import ExpectedGradient
from lamina.diagnosis.measures.reading import placements
from lamina.diagnosis.recording.own import own_stacks
from lamina.diagnosis.recording.passes import Pass, record_pass
from lamina.diagnosis.recording.records import Record
from lamina.diagnosis.results import Measure, Skipped
from lamina.residual.base import Placement


@dataclass(frozen=True)
class Anatomy:
    """What a model is, as its first record shows it."""

    description: str
    """`6-6 encoder-decoder, width 512, b2t`."""
    schemes: tuple[str, ...]
    placements: dict[str, Placement | None]
    """Where the norms of each stack stand."""
    sublayers_per_layer: int
    """Of the first stack."""

    @classmethod
    def of(cls, model: nn.Module, record: Record) -> Anatomy:
        first = record.stacks[0]
        kind = getattr(getattr(model, "options", None), "kind", None) or type(model).__name__
        depths = "-".join(str(stack.num_layers) for stack in record.stacks)
        schemes = tuple(dict.fromkeys(stack.own.residual.name for stack in record.stacks if stack.own is not None))
        return cls(
            description=", ".join([f"{depths} {kind}", f"width {first.input.value.shape[-1]}", *schemes]),
            schemes=schemes,
            placements=placements(record.stacks),
            sublayers_per_layer=len(first.sublayers) // first.num_layers,
        )


class Sample:
    """What is left of a model when it and its records are gone."""

    def __init__(self, parts: int = 1) -> None:
        """Batches take turns in so many parts, each of which can be left out again."""
        self.parts = parts
        self.by_batch: list[list[Measure]] = []
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        self.gradients = ExpectedGradient(parts)
        self.anatomy: Anatomy

    def look(self, model: nn.Module, run: Pass) -> None:
        """Take in one more batch."""
        record, said = record_pass(model, run)
        if not self.by_batch:
            self.anatomy = Anatomy.of(model, record)
        measures, skipped = take_all([record], BY_BATCH)
        self.gradients.add(record.gradients)
        self.by_batch.append(measures)
        self.skipped += skipped
        self.notes += said

    def look_again(self, quantity: ModuleType, model: nn.Module, run: Pass) -> None:
        """On the batch that was last looked at, with passes of the quantity's own."""
        try:
            self.by_batch[-1].append(quantity.take(model, run))
        except NotMeasurable as reason:
            self.skipped.append(Skipped(key=quantity.MEASURE.key, reason=str(reason)))

    def measures(self, without: int | None = None) -> tuple[list[Measure], list[Skipped]]:
        """Means over the batches, or over those of all parts but one; that of gradients comes before their norm."""
        kept = [each for number, each in enumerate(self.by_batch) if without is None or number % self.parts != without]
        means, skipped = average_all(kept)
        try:
            expected = gradient_by_layer.take_expected(self.gradients.mean(without), self.anatomy.placements)
        except NotMeasurable as reason:
            return means, [Skipped(key=gradient_by_layer.MEASURE.key, reason=str(reason)), *skipped]
        return [expected, *means], skipped


def take_sample(model: nn.Module, passes: Sequence[Pass], *, parts: int = 1, moving: bool = True) -> Sample:
    """Look at all batches. Where they are no samples, what takes passes of its own is measured on the first.

    moving: whether to look at moved weights, too.
    """
    sample = Sample(parts)
    several = any(len(stack.residual.streams) > 1 for _, stack in own_stacks(model))
    for number, run in enumerate(passes):
        sample.look(model, run)
        if parts > 1 or number == 0:
            if moving:
                sample.look_again(gradient_when_moved, model, run)
            if several:
                sample.look_again(gradient_by_stream, model, run)
    return sample
