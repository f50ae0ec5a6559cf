"""Are embedding and output layer one matrix, if they should be?"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.weight_tying import DECLARED, EQUAL, TIED
from lamina.diagnosis.results import Action, Finding


class BrokenTying(Check):
    reads = ("weight-tying",)
    position = 88

    def judge(self, evidence: CheckEvidence, thresholds: Check.Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("weight-tying")
        if measurement is None:
            return
        values = {each.name: each.value for each in measurement.facts}
        location = measurement.facts[0].location
        broken = not values[TIED] and (values[DECLARED] or values[EQUAL])
        if not broken:
            what = "are one matrix" if values[TIED] else "are two matrices"
            yield self.finding(
                "fine",
                f"the embedding and {location.module} {what}",
                location=location,
                value=values[TIED],
                threshold=0.0,
            )
            return
        reason = "the config declares them tied" if values[DECLARED] else "they hold the same numbers"
        yield self.finding(
            "warning",
            f"{location.module} and the embedding are two parameters, though {reason}: they will part in training",
            location=location,
            value=0.0,
            threshold=1.0,
            remedies=(Action(text=f"set {location.module}.weight to the embedding's, or call model.tie_weights()"),),
        )
