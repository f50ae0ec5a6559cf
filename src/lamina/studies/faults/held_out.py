"""The thresholds of the checks, chosen on one half of the fault grid and tested on the other.

The grid is divided like a chessboard: each fault is in one half with one model and in the other half with the other
model; trials without a fault alternate. For every check a band is chosen on the first half: its edges lie halfway, on a
logarithmic scale, between the values without a fault and those of the faults that the check should name. A fault of the
second half counts as named if a check that should name it has a value outside that band. Beside it stand the thresholds
that are shipped, and the majority's guess: the most frequent cause of the first half for every trial. Checks that do
not compare a number with a threshold, but test whether something is there, have nothing to choose and are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from statistics import median

from lamina.studies.faults.grid import NO_FAULT, REFUSED, FaultOutcome

BY_CONDITION = frozenset({"untrained", "targets", "structure", "weight-tying", "non-finite", REFUSED})
"""Checks that test a condition: a parameter without gradient, a target that is not the next token, a sum that is
missing. Their values differ in meaning from one finding to the next."""


@dataclass(frozen=True)
class UsualBand:
    """The values of a check without a fault."""

    low: float
    high: float

    def contains(self, value: float) -> bool:
        return isnan(value) or self.low <= value <= self.high


@dataclass(frozen=True)
class HeldOutScore:
    """The right answers on the half that was held out: faults named, and trials without a fault left alone."""

    faults: int
    healthy: int
    chosen: tuple[int, int]
    """With the bands of the first half: faults named, false alarms."""
    shipped: tuple[int, int]
    """With the thresholds of the checks as they are."""
    majority: tuple[int, int]
    """With the most frequent cause of the first half as the answer to every trial."""


def halves(outcomes: Sequence[FaultOutcome]) -> tuple[list[FaultOutcome], list[FaultOutcome]]:
    """A chessboard of faults and models; trials without a fault alternate."""
    faults = list(dict.fromkeys(each.fault for each in outcomes if each.fault != NO_FAULT))
    models = list(dict.fromkeys(each.model for each in outcomes if each.fault != NO_FAULT))
    parts: tuple[list[FaultOutcome], list[FaultOutcome]] = ([], [])
    healthy = 0
    for each in outcomes:
        if each.fault == NO_FAULT:
            parts[healthy % 2].append(each)
            healthy += 1
        else:
            parts[(faults.index(each.fault) + models.index(each.model)) % 2].append(each)
    return parts


def choose_bands(outcomes: Sequence[FaultOutcome]) -> dict[str, UsualBand]:
    """A band for every check that has values both without a fault and with one that it should name."""
    bands = {}
    for check in dict.fromkeys(check for each in outcomes for check in each.checks if check not in BY_CONDITION):
        usual = _values(check, (each for each in outcomes if each.fault == NO_FAULT))
        faulty = _values(check, (each for each in outcomes if check in each.checks))
        if usual and faulty:
            bands[check] = _band(usual, faulty)
    return bands


def _values(check: str, outcomes: Iterable[FaultOutcome]) -> list[float]:
    return [each.values[check] for each in outcomes if check in each.values and not isnan(each.values[check])]


def _band(usual: Sequence[float], faulty: Sequence[float]) -> UsualBand:
    """Edges halfway between usual values and the nearest faulty ones on either side; none where there are none."""
    middle = median(usual)
    above = [each for each in faulty if each > max(usual)]
    below = [each for each in faulty if each < min(usual)]
    inside = [each for each in faulty if min(usual) <= each <= max(usual)]
    # A faulty value among usual ones cannot be told apart, unless it is at the very edge.
    high = halfway(max(usual), min(above)) if above else inf if not inside or max(inside) <= middle else max(usual)
    low = halfway(max(below), min(usual)) if below else -inf if not inside or min(inside) >= middle else min(usual)
    return UsualBand(low, high)


def halfway(low: float, high: float) -> float:
    """The geometric mean where both are positive and finite, else the mean, or the finite one."""
    if not isfinite(low) or not isfinite(high):
        return low if isfinite(low) else high
    return (low * high) ** 0.5 if low > 0 else (low + high) / 2


def score(outcomes: Sequence[FaultOutcome]) -> HeldOutScore:
    """Choose bands on the first half and count right answers on the second, of the faults that a number shows."""
    first, second = halves([each for each in outcomes if each.fault == NO_FAULT or set(each.checks) - BY_CONDITION])
    bands = choose_bands(first)
    faults = [each for each in second if each.fault != NO_FAULT]
    healthy = [each for each in second if each.fault == NO_FAULT]
    causes = Counter(each.checks for each in first if each.fault != NO_FAULT)
    guess = causes.most_common(1)[0][0]
    return HeldOutScore(
        faults=len(faults),
        healthy=len(healthy),
        chosen=(sum(_is_named(each, bands) for each in faults), sum(_is_alarmed(each, bands) for each in healthy)),
        shipped=(sum(bool(each.named_by) for each in faults), sum(bool(each.others) for each in healthy)),
        majority=(sum(each.checks == guess for each in faults), len(healthy)),
    )


def _is_named(outcome: FaultOutcome, bands: dict[str, UsualBand]) -> bool:
    """Whether a check that should name the fault has a value outside its band; without a band it is as shipped."""
    judged = [check for check in outcome.checks if check in bands and check in outcome.values]
    if not judged:
        return bool(outcome.named_by)
    return any(not bands[check].contains(outcome.values[check]) for check in judged)


def _is_alarmed(outcome: FaultOutcome, bands: dict[str, UsualBand]) -> bool:
    judged = [check for check in bands if check in outcome.values]
    unjudged = set(outcome.others) - set(bands)
    return bool(unjudged) or any(not bands[check].contains(outcome.values[check]) for check in judged)


def score_table(outcomes: Sequence[FaultOutcome]) -> str:
    """The score as a Markdown table."""
    found = score(outcomes)
    rows = [("chosen on the other half", found.chosen), ("as shipped", found.shipped)]
    rows.append(("majority's guess", found.majority))
    lines = ["| thresholds | faults named | false alarms without a fault |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {named} of {found.faults} ({named / max(1, found.faults):.0%}) | {alarms} of {found.healthy} |"
        for name, (named, alarms) in rows
    ]
    return "\n".join(lines)
