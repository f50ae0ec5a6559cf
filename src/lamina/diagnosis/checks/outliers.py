"""Does a channel of the residual stream dominate all others?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.outlier_channels import LARGEST_TO_MEDIAN
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options


class Outliers(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 100.0
        """The largest channel's root mean square relative to the median channel's, from which on it is a warning. At
        initialisation it is below 5; the massive activations of trained Llama and GPT-2 reach hundreds."""

    reads = ("outlier-channels",)
    position = 82

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("outlier-channels")
        for series in measurement.select(quantity=LARGEST_TO_MEDIAN) if measurement else ():
            known = [at for at, value in enumerate(series.y) if not isnan(value)]
            if not known:
                yield self.finding(
                    "not measured", f"channels of the {series.location} are not numbers", location=series.location
                )
                continue
            worst = max(known, key=lambda at: series.y[at])
            location = Location(stack=series.location.stack, layer=int(series.x[worst]))
            is_large = series.y[worst] > thresholds.warning
            sentence = f"after {location} the largest channel is {short(series.y[worst])} times the median channel"
            sentence += (
                f", above the threshold of {short(thresholds.warning)}: it dominates norms and low precision"
                if is_large
                else f", below the threshold of {short(thresholds.warning)}"
            )
            yield self.finding(
                "warning" if is_large else "fine",
                sentence,
                location=location,
                value=series.y[worst],
                threshold=thresholds.warning,
                remedies=(Action(text="lower the learning rate, or keep weight decay on the gains of the norms"),),
            )
