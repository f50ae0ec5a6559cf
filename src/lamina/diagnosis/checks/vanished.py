"""Has the gradient of the lower layers vanished while the model was watched?

Judged is the stack from which the loss is read. In the stacks before it lower layers may have next to no gradient in
runs that train well.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from lamina.diagnosis.checks.evidence import Evidence, number
from lamina.diagnosis.results import Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("watched-weakest-layer")
    line = measure.measured[-1] if measure is not None else None
    known = {step: share for step, share in zip(line.x, line.y, strict=True) if isfinite(share)} if line else {}
    if line is None or not known:
        return
    below = [step for step, share in known.items() if share < options.vanished]
    is_below = list(known.values())[-1] < options.vanished
    found = (
        f"the smallest gradient of a layer of the {line.label} was {number(min(known.values()))} of the last layer's, "
        f"in {len(known)} watched steps"
    )
    if below:
        found += f", below {number(options.vanished)} in {len(below)} of them, first at step {below[0]:,.0f}; " + (
            "it still is" if is_below else "it has come back since"
        )
    yield Verdict(
        kind="vanishing",
        severity="failure" if is_below else "warning" if below else "fine",
        sentence=found,
        advice=f"take a lower rate or a longer warm-up; or {evidence.cures('rate')}" if below else "",
        value=min(known.values()),
        threshold=options.vanished,
        where=line.label,
    )
