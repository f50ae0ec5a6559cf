"""What the measures mean, in plain sentences: each with its number, its threshold, its place, and what to change."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.diagnose.results import Measure, Verdict
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdict import amplification, collapse, conditioning, overflow, unstable, vanishing
from lamina.diagnose.verdict.evidence import Evidence

FAULTS = (unstable, vanishing, amplification, conditioning, collapse, overflow)
ORDER = ("failure", "warning", "fine")


def judge(
    measures: Sequence[Measure], *, schemes: Sequence[str] = (), options: VerdictOptions | None = None
) -> tuple[Verdict, ...]:
    """All verdicts that the measures allow, the worst first.

    schemes: those of the model's stacks, which are not suggested again.
    """
    evidence, thresholds = Evidence(measures, schemes), options or VerdictOptions()
    found = [verdict for fault in FAULTS for verdict in fault.judge(evidence, thresholds)]
    return tuple(sorted(found, key=lambda verdict: ORDER.index(verdict.severity)))
