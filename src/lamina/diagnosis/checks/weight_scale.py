"""Is a weight matrix far larger or smaller than an initialisation should be?"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact
from lamina.diagnosis.measures.weight_scale import SCALE
from lamina.diagnosis.results import Code, Finding, Remedy, Setting
from lamina.formatting import short
from lamina.options import Options


class WrongWeightScale(Check):
    class Thresholds(Options):
        largest: PositiveFloat = 4.0
        """√mean(W²)·√n of a matrix with n inputs, from which on it multiplies what it reads. Usual initialisations are
        between 0.1 and 2."""
        least: PositiveFloat = 0.01
        """The same number, below which a matrix hardly passes on what it reads. Residual projections of GPT-2 with 48
        layers have 0.08."""

    reads = ("weight-scale",)
    position = 84

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("weight-scale")
        stacks: dict[str | None, list[Fact]] = {}
        for fact in measurement.find_facts(SCALE) if measurement else ():
            stacks.setdefault(fact.location.stack, []).append(fact)
        for facts in stacks.values():
            large = [each for each in facts if each.value > thresholds.largest]
            small = [each for each in facts if each.value < thresholds.least]
            if large:
                worst = max(large, key=lambda each: each.value)
                yield self._judge(worst, len(large), "large", thresholds.largest, own=bool(evidence.schemes))
            if small:
                worst = min(small, key=lambda each: each.value)
                yield self._judge(worst, len(small), "small", thresholds.least, own=bool(evidence.schemes))
            if not large and not small:
                values = sorted(each.value for each in facts)
                sentence = f"weight matrices have {short(values[0])} to {short(values[-1])} times the size 1 ÷ √inputs"
                yield self.finding(
                    "fine", sentence, location=facts[0].location, value=values[-1], threshold=thresholds.largest
                )

    def _judge(self, worst: Fact, many: int, what: str, threshold: float, *, own: bool) -> Finding:
        return self.finding(
            "warning",
            f"the weights of {worst.location.module} are {short(worst.value)} times 1 ÷ √inputs, too {what} against "
            f"the threshold of {short(threshold)}{f', as are {many - 1} other matrices' if many > 1 else ''}: the "
            "initialisation scale is wrong",
            location=worst.location,
            value=worst.value,
            threshold=threshold,
            remedies=(Setting(key="model.init", value="xavier") if own else _scaled(worst, many),),
        )


def _scaled(worst: Fact, many: int) -> Remedy:
    """A line that brings a matrix to the size 1 ÷ √inputs."""
    others = ", and the other matrices likewise" if many > 1 else ""
    return Code(
        line=f'model.get_submodule("{worst.location.module}").weight.data.mul_({1 / worst.value:.2g})',
        words=f"an initialisation of standard deviation 1 ÷ √inputs{others}",
    )
