"""Can a residual sum leave the range of half precision?

Judged is the largest value that was seen, or, where only norms are known, the largest that a Gaussian stream of that
norm would have. Streams grow in training: a few times more than is there must still fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from lamina.diagnosis.checks.evidence import Evidence, grade, number
from lamina.diagnosis.results import Series, Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    for where, value in [*_seen(evidence), *_estimated(evidence, options)]:
        limit = options.half_precision
        severity = grade(value if isfinite(value) else float("inf"), limit / options.headroom, limit)
        threshold = limit if severity == "failure" else limit / options.headroom
        found = f"the largest value of the {where} is about {number(value)}"
        if severity == "fine":
            found, advice = f"{found}, far inside half precision (below {number(threshold)})", ""
        else:
            what = "does not fit into" if severity == "failure" else "may outgrow"
            found = f"{found}, above {number(threshold)}: the residual sum {what} half precision"
            advice = "train in bf16, keep the stream in fp32, scale it down, or normalise after every sum"
        yield Verdict(
            kind="overflow",
            severity=severity,
            sentence=found,
            advice=advice,
            value=value,
            threshold=threshold,
            where=where,
        )


def _seen(evidence: Evidence) -> Iterator[tuple[str, float]]:
    watched = evidence.get("watched-streams")
    for series in watched.measured if watched else ():
        if series.label.endswith(" largest"):
            yield f"stream of the {series.label.removesuffix(' largest')}", _largest(series)


def _estimated(evidence: Evidence, options: VerdictOptions) -> Iterator[tuple[str, float]]:
    """Streams start at x = 0, before the first sub-layer; branches and norms, from 1, are not sums."""
    norms = evidence.get("stream-norms")
    for series in norms.measured if norms else ():
        if series.x and series.x[0] == 0:
            yield f"stream of the {series.label}", options.peak * _largest(series) ** 0.5


def _largest(series: Series) -> float:
    return max((value if value == value else float("inf") for value in series.y), default=0.0)
