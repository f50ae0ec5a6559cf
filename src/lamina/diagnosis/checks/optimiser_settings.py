"""Are the optimiser's settings outside the range in which anything is known to train?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.optimiser_settings import NAMES
from lamina.diagnosis.results import Finding, Setting
from lamina.formatting import short
from lamina.options import Options


class UnusualSettings(Check):
    class Thresholds(Options):
        least_beta2: PositiveFloat = 0.9
        """β₂ below which v follows single gradients: the papers use 0.95 to 0.999."""
        largest_beta2: PositiveFloat = 0.9995
        """β₂ above which v is an average over thousands of steps and lags behind the gradient."""
        largest_beta1: PositiveFloat = 0.99
        """β₁ above which momentum is an average over hundreds of steps."""

    reads = ("optimiser-settings",)
    position = 64

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("optimiser-settings")
        if measurement is None:
            return
        bounds = {
            "beta1": (0.0, thresholds.largest_beta1),
            "beta2": (thresholds.least_beta2, thresholds.largest_beta2),
        }
        found = [
            self._outside(name, fact.value, low, high)
            for name, (low, high) in bounds.items()
            for fact in measurement.find_facts(NAMES[name])[:1]
            if not low <= fact.value <= high
        ]
        yield from found or [self.finding("fine", "β₁ and β₂ are in their usual range", value=0.0, threshold=0.0)]

    def _outside(self, name: str, value: float, low: float, high: float) -> Finding:
        letter = {"beta1": "β₁", "beta2": "β₂"}[name]
        wrong = "small" if value < low else "large"
        threshold = low if value < low else high
        effect = "updates follow the noise of single batches" if value < low else "the average lags behind the gradient"
        return self.finding(
            "warning",
            f"{letter} = {short(value, 5)} is too {wrong}, against the threshold of {short(threshold, 5)}: {effect}",
            value=value,
            threshold=threshold,
            remedies=(Setting(key="optimiser.betas", value="0.9, 0.98"),),
        )
