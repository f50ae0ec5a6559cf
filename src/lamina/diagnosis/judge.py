"""What the measures mean, in plain sentences: each with its number, its threshold, its place, and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamina.diagnosis.checks import amplification, collapse, conditioning, overflow, rate, unstable, vanished, vanishing
from lamina.diagnosis.checks.evidence import Evidence
from lamina.diagnosis.measures.averaging import deviation
from lamina.diagnosis.results import Measure, Verdict
from lamina.diagnosis.thresholds import VerdictOptions

FAULTS = (unstable, vanished, vanishing, rate, amplification, conditioning, collapse, overflow)
FORETELLING = frozenset({"vanishing", "rate", "amplification"})
"""The kinds whose failures at the start say that training will fail."""
ORDER = ("failure", "warning", "fine")


def judge(
    measures: Sequence[Measure],
    *,
    schemes: Sequence[str] = (),
    options: VerdictOptions | None = None,
    samples: Sequence[Sequence[Measure]] = (),
    scale: float = 1.0,
    highest_rate: float | None = None,
) -> tuple[Verdict, ...]:
    """All verdicts that the measures allow, the worst first.

    schemes: those of the model's stacks, which are not suggested again.
    highest_rate: at which Adam is to train it; without it nothing is said about the rate.
    samples: the same measures of single seeds or batches: their verdicts' values differ by the spread, times `scale`.
    """
    thresholds = options or VerdictOptions()
    found, *others = (_numbered(Evidence(each, schemes, highest_rate), thresholds) for each in (measures, *samples))
    spread = [
        verdict.model_copy(update={"spread": _spread([other[key].value for other in others if key in other], scale)})
        for key, verdict in found.items()
    ]
    return tuple(sorted(spread, key=lambda verdict: ORDER.index(verdict.severity)))


def expects_failure(verdicts: Iterable[Verdict]) -> bool:
    return any(verdict.severity == "failure" and verdict.kind in FORETELLING for verdict in verdicts)


def _numbered(evidence: Evidence, options: VerdictOptions) -> dict[tuple[str, int], Verdict]:
    """By fault and number: every one is judged once in each stack, in their order."""
    return {
        (fault.__name__, number): verdict
        for fault in FAULTS
        for number, verdict in enumerate(fault.judge(evidence, options))
    }


def _spread(values: Sequence[float], scale: float) -> float | None:
    return deviation(values, scale) if len(values) > 1 else None
