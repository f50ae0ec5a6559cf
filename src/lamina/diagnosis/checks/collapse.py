"""Do the upper layers still change the residual stream, and from which sub-layer on do they not?

Pre-LN adds branches of one size to a stream that grows, so that the normalised state changes less and less (Xie et al.
2023, Theorem 3.3). That alone is no fault: where all n branches have the same size, sub-layer k changes the state by
about 1/√k, and the last third changes it by (√n − √(2n/3)) ÷ √(n/3) → √3 − √2 = 0.318 of what the first third does, at
any depth. A stack below that has upper layers whose branches are small as well. Such a model may train, but its upper
layers contribute little: hence a warning at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.cosine_of_layers import ALL_WITH_LAST
from lamina.diagnosis.measures.hidden_change import LAST_TO_FIRST_THIRD
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options


class Collapse(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 0.3
        """The change of the stream by the last third of a stack relative to that by the first third, below which it is
        a warning. A pre-LN whose branches all have the same size has at least √3 − √2 = 0.318, at any depth."""

    reads = ("hidden-change", "cosine-of-layers")
    position = 70

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("hidden-change")
        for fact in measurement.find_facts(LAST_TO_FIRST_THIRD) if measurement else ():
            assert measurement is not None
            stack, share, threshold = fact.location.stack, fact.value, thresholds.warning
            if isnan(share):
                yield self.finding(
                    "not measured", f"the change of the {stack} is not a number", location=Location(stack=stack)
                )
                continue
            sentence = (
                f"the last third of the {stack} changes its stream by {short(share)} of what the first third does"
            )
            series = measurement.select(stack=stack) if share < threshold else []
            start = first_idle(series[0].y, threshold) if series else None
            if share >= threshold:
                sentence += f", above the threshold of {short(threshold)}"
            else:
                where = "" if start is None else f" from sub-layer {start} on{_similarity(evidence, stack)}"
                sentence += f", below the threshold of {short(threshold)}: its representation collapses{where}"
            yield self.finding(
                "fine" if share >= threshold else "warning",
                sentence,
                location=Location(stack=stack, sublayer=start),
                value=share,
                threshold=threshold,
                remedies=(
                    Action(text="use fewer layers, which may reach the same loss"),
                    evidence.schemes_that_avoid("collapse"),
                ),
            )


def first_idle(changes: Sequence[float], share: float) -> int | None:
    """The sub-layer, from 1, from which on all change the stream by less than `share` of what the first third does."""
    third = max(1, len(changes) // 3)
    least = share * sum(changes[:third]) / third
    idle = len(changes)
    while idle and changes[idle - 1] < least:
        idle -= 1
    return idle + 1 if idle < len(changes) else None


def _similarity(evidence: CheckEvidence, stack: str | None) -> str:
    cosines = evidence.get("cosine-of-layers")
    found = cosines.fact(ALL_WITH_LAST, stack=stack) if cosines else None
    return "" if found is None else f" (mean cosine of the layers with the last: {short(found)})"
