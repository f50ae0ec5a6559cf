"""How much does a small update of the weights change the output, and how does that grow with depth?

By Liu et al. 2020 (Theorem 2) the change of the output is C·Σβᵢᵢ², where βᵢᵢ is the share of the newest branch. Where
all branches have the same size, as in a pre-LN without embedding, the sum is 1 + 1/2 + … + 1/n, of order ln n; in
post-LN all terms are the same, and the sum is of order n. So the sum is divided by Σ1/i, which removes the harmless
part of depth. The theorem is about a single residual stream; stacks with several, such as ResiDual's, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import GENTLE, Check, CheckEvidence, GentleTraining, gentle_settings, grade
from lamina.diagnosis.measurement import Fact, Location, Measurement
from lamina.diagnosis.measures.layer_dependency import SUM_OF_SQUARES
from lamina.diagnosis.measures.output_change import LINEAR_R_SQUARED, LOGARITHMIC_R_SQUARED
from lamina.diagnosis.results import Finding
from lamina.formatting import short


class Amplification(Check):
    class Thresholds(GentleTraining):
        warning: PositiveFloat = 1.4
        """Σβᵢᵢ² ÷ Σ1/i over the sub-layers of a stack, from which on it is a warning: the change of the output (Liu et
        al. 2020, Theorem 2) relative to branches of the same size (Corollary 1). A Llama of 12 layers and width 768 has
        1.21 at its initialisation and trains; some small runs between 1.4 and 1.8 failed (docs/experiments.md)."""
        failure: PositiveFloat = 1.87
        """Σβᵢᵢ² ÷ Σ1/i, from which on training without a long warm-up is expected to fail. Calibrated on small runs,
        see lamina.studies.calibration."""

    reads = ("layer-dependency", "gradient-along-stream", "output-change")
    predicts_failure = True
    position = 50

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("layer-dependency")
        for total in measurement.find_facts(SUM_OF_SQUARES) if measurement else ():
            assert measurement is not None
            location = Location(stack=total.location.stack)
            if isnan(total.value):
                yield self.finding("not measured", f"Σβᵢᵢ² of the {location} is not a number", location=location)
            elif _has_further_streams(evidence, location):
                yield self.finding(
                    "not measured",
                    f"the theorem is about a single residual stream, and the {location} has several",
                    location=location,
                )
            else:
                yield self._judge_total(total, measurement, evidence, thresholds)

    def _judge_total(
        self, total: Fact, measurement: Measurement, evidence: CheckEvidence, thresholds: Thresholds
    ) -> Finding:
        location = Location(stack=total.location.stack)
        (diagonal,) = measurement.select(stack=location.stack)
        value = total.value / sum(1 / place for place in range(1, len(diagonal.y) + 1))
        severity = grade(value, thresholds.warning, thresholds.failure)
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        gentle = severity == "failure" and evidence.trains_gently(thresholds)
        sentence = (
            f"an update changes the output of the {location} by Σβᵢᵢ² = {short(total.value)}, {short(value)} times "
            "what branches of the same size would give"
        )
        if severity == "fine":
            sentence += f", below the threshold of {short(threshold)}"
        else:
            sentence += (
                f", above the threshold of {short(threshold)}: the stack amplifies small changes{_order(evidence)}"
            )
        return self.finding(
            "warning" if gentle else severity,
            sentence + (GENTLE if gentle else ""),
            location=location,
            value=value,
            threshold=threshold,
            remedies=(
                *gentle_settings(thresholds),
                evidence.schemes_that_avoid("amplification"),
            ),
        )


def _has_further_streams(evidence: CheckEvidence, location: Location) -> bool:
    gradients = evidence.get("gradient-along-stream")
    series = gradients.select(stack=location.stack) if gradients else []
    return any(each.location.stream is not None for each in series)


def _order(evidence: CheckEvidence) -> str:
    """How the change grows with depth, if models of several depths were measured."""
    measurement = evidence.get("output-change")
    linear = measurement.fact(LINEAR_R_SQUARED) if measurement else None
    if measurement is None or linear is None or isnan(linear):
        return ""
    logarithmic = measurement.fact(LOGARITHMIC_R_SQUARED)
    if logarithmic is None or isnan(logarithmic) or linear > logarithmic:
        order, best = "n", linear
    else:
        order, best = "ln n", logarithmic
    return f", of order {order} in the number of sub-layers (R² {short(best)})"
