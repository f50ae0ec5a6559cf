"""Is Adam's ε too large for the gradients?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.gradient_against_epsilon import EPSILON
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import short
from lamina.options import Options


class Epsilon(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 1.0
        """ε ÷ √mean(g²) of a layer from which on it is a warning: Adam's update is then less than half the learning
        rate (Kingma and Ba 2015, section 2.1)."""

    reads = ("gradient-against-epsilon",)
    position = 62

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("gradient-against-epsilon")
        epsilon = measurement.fact(EPSILON) if measurement else None
        for series in measurement.measured if measurement else ():
            worst = max(range(len(series.y)), key=lambda at: series.y[at])
            value, layer = series.y[worst], int(series.x[worst])
            many = sum(each > thresholds.warning for each in series.y)
            is_large = value > thresholds.warning
            location = Location(stack=series.location.stack, layer=layer)
            sentence = f"Adam's ε of {short(epsilon or 0.0)} is {short(value)} times the gradients of {location}"
            if is_large:
                sentence += (
                    f", above the threshold of {short(thresholds.warning)}, as in {many} of {len(series.y)} layers: "
                    "updates are smaller than the learning rate, and Adam behaves like SGD"
                )
            yield self.finding(
                "warning" if is_large else "fine",
                sentence,
                location=location,
                value=value,
                threshold=thresholds.warning,
                remedies=(
                    Setting(key="optimiser.eps", relation="<", value=(epsilon or 0.0) / max(value, 1.0) / 100),
                    Action(text="check that the loss is not divided twice, and that clipping is not far too low"),
                ),
            )
