"""How much the numbers depend on seeds, or on batches.

Seeds are samples: their mean is shown, with the standard deviation. Batches of one model are parts of one sample, for
the expected gradient is a mean over all of them: here each is left out in turn (the jackknife). Pseudo-values
p·θ − (p−1)·θ₋ᵢ of p parts have p − 1 times the standard deviation of the θ₋ᵢ, and that of the batches themselves where
θ is a mean; of parts of several batches it is smaller by a root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.diagnosis.measures import average_all, combine, conclude_all
from lamina.diagnosis.results import Measure, Skipped
from lamina.diagnosis.sample import Anatomy, Sample

PARTS = 8
"""Gradients are kept so many times at most."""


@dataclass(frozen=True)
class Findings:
    """What was measured, and how it varies."""

    anatomy: Anatomy
    whole: list[Measure]
    skipped: list[Skipped]
    notes: list[str]
    samples: list[list[Measure]]
    """From which the deviations come …"""
    scale: float = 1.0
    """… when multiplied by this."""

    def measures(self) -> list[Measure]:
        return combine(self.whole, self.samples, self.scale)

    def concluded_samples(self) -> list[list[Measure]]:
        return [conclude_all(sample) for sample in self.samples]


def over_batches(sample: Sample) -> Findings:
    parts, (whole, skipped) = sample.parts, sample.measures()
    left_out = [sample.measures(without=part)[0] for part in range(parts)] if parts > 1 else []
    scale = (parts - 1) * (len(sample.by_batch) / parts) ** 0.5
    return Findings(sample.anatomy, whole, [*sample.skipped, *skipped], sample.notes, left_out, scale)


def over_seeds(models: Sequence[Findings]) -> Findings:
    samples = [each.whole for each in models]
    whole, unlike = average_all(samples)
    skipped = [each for model in models for each in model.skipped]
    notes = [note for model in models for note in model.notes]
    return Findings(models[0].anatomy, whole, [*skipped, *unlike], notes, samples)
