"""Have updates left their band while the model was watched?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from lamina.diagnosis.checks.evidence import Evidence, number
from lamina.diagnosis.results import Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("watched-updates")
    if measure is None:
        return
    steps, outside = measure.facts["watched steps"], measure.facts["steps outside the band"]
    if not outside:
        single = measure.facts["steps with single updates outside"]
        sentence = f"updates kept to their bands in {steps:.0f} watched steps"
        sentence += f", but for a few of them at {single:.0f} steps" if single else ""
        yield Verdict(kind="unstable", severity="fine", sentence=sentence, value=0.0, threshold=0.0)
        return
    furthest, first = measure.facts["furthest outside"], measure.facts["first step outside"]
    yield Verdict(
        kind="unstable",
        severity="warning" if isfinite(furthest) else "failure",
        sentence=(
            f"updates left their band at {outside:.0f} of {steps:.0f} watched steps, first at step {first:,.0f}, "
            f"up to {number(furthest)} times their usual size at the rate"
        ),
        advice="look at the batches there; lower the learning rate, lengthen its warm-up, or clip the gradient",
        value=outside,
        threshold=0.0,
        where=f"step {first:,.0f}",
    )
