"""Do the upper layers still change what passes, and from which layer on do they not?

Pre-LN adds branches of one size to a stream that grows, so the normalised state moves less and less (Xie et al. 2023,
Theorem 3.3). Such a model trains; its upper layers are wasted. Hence a warning at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina.diagnosis.checks.evidence import Evidence, Severity, facts_ending, line, number
from lamina.diagnosis.results import Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("hidden-change")
    for stack, share in facts_ending(measure, " last/first third").items() if measure else ():
        found = f"the last third of the {stack} changes its stream by {number(share)} of what the first third does"
        if share >= options.collapse:
            yield _verdict("fine", f"{found}: its upper layers do their share", "", share, options, "")
            continue
        assert measure is not None
        series = line(measure, stack)
        start = first_idle(series.y, options.collapse) if series else None
        where = "" if start is None else f"{stack} sub-layer {start}"
        since = "" if start is None else f", from sub-layer {start} on{_alike(evidence, stack)}"
        advice = f"{evidence.cures('collapse')} keep the upper layers at work; else fewer layers may do as well"
        sentence = f"{found}, below {number(options.collapse)}: its representation collapses{since}"
        yield _verdict("warning", sentence, advice, share, options, where)


def first_idle(changes: Sequence[float], share: float) -> int | None:
    """The sub-layer, from 1, from which on all change the stream by less than `share` of what the first third does."""
    third = max(1, len(changes) // 3)
    bar = share * sum(changes[:third]) / third
    idle = len(changes)
    while idle and changes[idle - 1] < bar:
        idle -= 1
    return idle + 1 if idle < len(changes) else None


def _alike(evidence: Evidence, stack: str) -> str:
    cosines = evidence.get("cosine-of-layers")
    found = None if cosines is None else cosines.facts.get(f"{stack} all with last")
    return "" if found is None else f" (cosine of the layers with the last: {number(found)})"


def _verdict(
    severity: Severity, sentence: str, advice: str, share: float, options: VerdictOptions, where: str
) -> Verdict:
    return Verdict(
        kind="collapse",
        severity=severity,
        sentence=sentence,
        advice=advice,
        value=share,
        threshold=options.collapse,
        where=where,
    )
