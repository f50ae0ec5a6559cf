"""Did the gradient of the lower layers vanish while the model was watched in training?

Only the stack from which the loss is computed is checked: in the stacks before it the lower layers may have almost no
gradient in runs that train well.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.watched_weakest_layer import STACK_OF_THE_LOSS
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import count, short
from lamina.options import Options


class Vanished(Check):
    class Thresholds(Options):
        share: PositiveFloat = 0.01
        """A layer's gradient norm relative to the last layer's, below which it has vanished. Of 23 small runs that were
        not used to set it, none that trained came below it, and five of the six that failed did."""

    reads = ("watched-weakest-layer",)
    position = 20

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("watched-weakest-layer")
        if measurement is None:
            return
        for judged in measurement.find_facts(STACK_OF_THE_LOSS):
            location = Location(stack=judged.location.stack)
            series = measurement.select(stack=location.stack)
            known = {x: y for each in series for x, y in zip(each.x, each.y, strict=True) if isfinite(y)}
            if len(known) == 1 and min(known.values()) >= thresholds.share:
                reason = f"only one watched step had finite gradients in two layers of the {location}"
                yield self.finding("not measured", reason, location=location)
            elif known:
                yield self._judge_shares(known, location, evidence, thresholds.share)
            else:
                yield self.finding(
                    "not measured",
                    f"no watched step had finite gradients in two layers of the {location}",
                    location=location,
                )

    def _judge_shares(
        self, shares: dict[float, float], location: Location, evidence: CheckEvidence, threshold: float
    ) -> Finding:
        """shares: the weakest layer's gradient norm relative to the last layer's, by step."""
        below = [step for step, share in shares.items() if share < threshold]
        is_below = list(shares.values())[-1] < threshold
        least = min(shares.values())
        sentence = (
            f"the smallest gradient norm of a layer of the {location} was {short(least)} of the last layer's in "
            f"{count(len(shares), 'watched step')}"
        )
        if below:
            end = "it is still below" if is_below else "it has recovered since"
            sentence += f", below the threshold of {short(threshold)} in {len(below)} of them"
            sentence += f", first at step {below[0]:,.0f}; {end}"
        else:
            sentence += f", above the threshold of {short(threshold)}"
        return self.finding(
            "failure" if is_below else "warning" if below else "fine",
            sentence,
            location=location,
            value=least,
            threshold=threshold,
            remedies=(
                Action(text="divide the learning rate by 3, or double the warm-up, and start again"),
                evidence.schemes_that_avoid("learning-rate"),
            ),
        )
