"""Has the gradient of the lower layers vanished while the model was watched?

Judged is the last stack, from which the loss is read. In the stacks before it lower layers may have next to no gradient
in runs that train well.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnose.results import Verdict
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdict.evidence import Evidence, number


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("watched-weakest-layer")
    if measure is None:
        return
    line = measure.measured[-1]
    smallest = min((share for share in line.y if share == share), default=float("nan"))
    below = [step for step, share in zip(line.x, line.y, strict=True) if share < options.vanished]
    found = f"the smallest gradient of a layer of the {line.label} was {number(smallest)} of the last layer's"
    if not below:
        yield Verdict(
            kind="vanishing",
            severity="fine",
            sentence=f"{found}, at {len(line.x)} watched steps",
            value=smallest,
            threshold=options.vanished,
            where=line.label,
        )
        return
    now = below[-1] == line.x[-1]
    yield Verdict(
        kind="vanishing",
        severity="failure" if now else "warning",
        sentence=f"{found}, below {number(options.vanished)} at {len(below)} of {len(line.x)} watched steps, first at "
        f"step {below[0]:,.0f}; " + ("it still is" if now else "it has come back since"),
        advice=f"a lower rate or a longer warm-up, or {evidence.cures('vanishing')}",
        value=smallest,
        threshold=options.vanished,
        where=line.label,
    )
