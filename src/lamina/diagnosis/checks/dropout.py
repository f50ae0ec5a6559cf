"""Does dropout remove most of what a layer computes?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.dropout_rates import PROBABILITY
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options


class StrongDropout(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 0.5
        """The probability above which it is a warning: Srivastava et al. 2014 use 0.5 at most for hidden units."""

    reads = ("dropout-rates",)
    position = 86

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("dropout-rates")
        facts = measurement.find_facts(PROBABILITY) if measurement else []
        if not facts:
            return
        worst = max(facts, key=lambda each: each.value)
        is_strong = worst.value > thresholds.warning
        sentence = f"{worst.location.module} drops {short(worst.value)} of its values"
        sentence += (
            f", above the threshold of {short(thresholds.warning)}: most of the signal is lost" if is_strong else ""
        )
        yield self.finding(
            "warning" if is_strong else "fine",
            sentence,
            location=worst.location,
            value=worst.value,
            threshold=thresholds.warning,
            remedies=(Action(text=f"lower p of {worst.location.module} to 0.1, and check that it is not 1 − p"),),
        )
