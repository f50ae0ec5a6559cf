"""Are units of a feed-forward sub-layer inactive whatever the input?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Fact
from lamina.diagnosis.measures.dead_units import DEAD
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options


class Dead(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 0.3
        """The share of dead units of a layer from which on it is a warning. At initialisation a unit is inactive at
        half of all positions, so that over the sixteen positions that are needed hardly any is dead."""
        failure: PositiveFloat = 0.95
        """The share of dead units from which on the sub-layer passes nothing on."""

    reads = ("dead-units",)
    position = 92

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("dead-units")
        stacks: dict[str | None, list[Fact]] = {}
        for fact in measurement.find_facts(DEAD) if measurement else ():
            stacks.setdefault(fact.location.stack, []).append(fact)
        for facts in stacks.values():
            worst = max(facts, key=lambda each: each.value)
            severity = grade(worst.value, thresholds.warning, thresholds.failure)
            threshold = thresholds.failure if severity == "failure" else thresholds.warning
            sentence = f"{short(worst.value)} of the units after {worst.location.module} are inactive at every position"
            if severity == "fine":
                sentence = f"at most {sentence}, below the threshold of {short(threshold)}"
            else:
                sentence += f", above the threshold of {short(threshold)}: they pass nothing on and get no gradient"
            yield self.finding(
                severity,
                sentence,
                location=worst.location,
                value=worst.value,
                threshold=threshold,
                remedies=(
                    Action(text=f"set the bias of {worst.location.module} to zero, or initialise it again"),
                    Action(text="lower the learning rate, or use GELU or SiLU"),
                ),
            )
