"""Is the next update too large or too small for the weights, left out, or outweighed by weight decay?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact
from lamina.diagnosis.measures.update_size import ASSUMED, DECAY, DECOUPLED, LEARNING_RATE, NOT_UPDATED, RATIO
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import short
from lamina.options import Options


class UpdateOutsideBand(Check):
    class Thresholds(Options):
        largest: PositiveFloat = 1.0
        """‖ΔW‖ ÷ ‖W‖ of the median matrix from which on one step replaces the weights. The first step of Adam at a
        learning rate of 0.001 has 0.05 for weights of standard deviation 0.02."""
        least: PositiveFloat = 1e-5
        """‖ΔW‖ ÷ ‖W‖ of the median matrix, below which ten thousand steps move the weights by a tenth."""
        decay: PositiveFloat = 0.01
        """η·λ of decoupled weight decay from which on the weights are forgotten within a hundred steps."""
        coupled_decay: PositiveFloat = 3.0
        """λ‖W‖ ÷ ‖g‖ of the median matrix, from which on a decay that is part of the gradient outweighs the loss."""

    reads = ("update-size",)
    position = 98

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("update-size")
        if measurement is None:
            return
        still = measurement.find_facts(NOT_UPDATED)
        if still:
            yield self._judge_still(still)
        if measurement.fact(ASSUMED) and evidence.learning_rate is None:
            yield self.finding("not measured", "neither optimiser nor learning rate is known")
            return
        updated = {each.location for each in still}
        ratios = [each for each in measurement.find_facts(RATIO) if each.location not in updated]
        rate = measurement.fact(LEARNING_RATE) or 0.0
        found = list(self._judge_ratios(ratios, rate, thresholds)) if ratios else []
        decays = measurement.find_facts(DECAY)
        found += self._judge_decay(decays, measurement.fact(DECOUPLED) == 1, thresholds) if decays else []
        if found:
            yield from found
        elif ratios and not still:
            usual = median(each.value for each in ratios)
            yield self.finding(
                "fine",
                f"the next update changes the median matrix by {short(usual)} of its size",
                value=usual,
                threshold=thresholds.largest,
            )

    def _judge_still(self, still: Sequence[Fact]) -> Finding:
        first = still[0].location
        others = f" and {len(still) - 1} others" if len(still) > 1 else ""
        return self.finding(
            "failure",
            f"{first.module}{others} would not be updated, though there is a gradient: the optimiser was not given it, "
            "or the learning rate of its group is 0",
            location=first,
            value=0.0,
            threshold=0.0,
            remedies=(Action(text=f"give {first.module} to the optimiser in a group with a learning rate above 0"),),
        )

    def _judge_ratios(self, ratios: Sequence[Fact], rate: float, thresholds: Thresholds) -> Iterator[Finding]:
        usual = median(each.value for each in ratios)
        if usual > thresholds.largest:
            worst = max(ratios, key=lambda each: each.value)
            yield self.finding(
                "failure",
                f"at the learning rate {short(rate)} the next update is {short(usual)} times the weights in the median "
                f"matrix, and {short(worst.value)} times those of {worst.location.module}: one step replaces them",
                location=worst.location,
                value=usual,
                threshold=thresholds.largest,
                remedies=(Setting(key="schedule.learning_rate", relation="<", value=0.1 * rate / usual),),
            )
        elif usual < thresholds.least:
            yield self.finding(
                "warning",
                f"at the learning rate {short(rate)} the next update is {short(usual)} of the weights in the median "
                f"matrix, below the threshold of {short(thresholds.least)}: training hardly moves them",
                value=usual,
                threshold=thresholds.least,
                remedies=(Setting(key="schedule.learning_rate", relation=">", value=1e-3 * rate / max(usual, 1e-30)),),
            )

    def _judge_decay(self, decays: Sequence[Fact], decoupled: bool, thresholds: Thresholds) -> Iterator[Finding]:
        usual = median(each.value for each in decays)
        threshold = thresholds.decay if decoupled else thresholds.coupled_decay
        if usual <= threshold:
            return
        if decoupled:
            what = f"weight decay shrinks the weights by {short(usual)} in every step"
        else:
            what = f"weight decay adds {short(usual)} times the gradient to the gradient"
        yield self.finding(
            "failure",
            f"{what}, above the threshold of {short(threshold)}: it outweighs what the loss asks for",
            location=decays[0].location,
            value=usual,
            threshold=threshold,
            remedies=(Setting(key="optimiser.weight_decay", relation="<", value=0.1),),
        )
