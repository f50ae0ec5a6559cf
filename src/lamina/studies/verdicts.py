"""Verdicts on the papers' claims: comparisons of samples that hold, do not hold, or are undecided.

A comparison is decided by the 95 % interval of the paired difference over seeds, and needs at least three seeds on both
sides unless the values are exact. Where all runs of one side failed and none of the other, the failed side counts as
infinitely bad.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from lamina.diagnosis.measurement import TypedResult
from lamina.formatting import short
from lamina.studies.samples import Interval, Sample

LEAST_SEEDS = 3
"""Fewer seeds leave a comparison undecided."""
COUNTED_SEEDS = 5
"""The number of seeds where failures are counted."""
MOST_FAILED = 1
"""A condition trains if at most so many of `COUNTED_SEEDS` fail; it fails if at most so many do not."""

NO_PARTS = "no part of the claim was measured"
MOST_PARTS = 4
"""The largest number of parts of a claim whose numbers are all shown."""

Outcome = Literal["holds", "does not hold", "undecided"]
Better = Literal["higher", "lower"]


class Verdict(TypedResult):
    """Whether a claim holds, and the numbers that decide it."""

    outcome: Outcome
    measured: str
    """The measured numbers with their 95 % intervals, and the bounds that they are compared with."""
    effect: float | None = None
    """The difference, or the value that was compared with a bound; None where there are several."""
    low: float | None = None
    high: float | None = None
    """The ends of its 95 % interval."""
    reason: str = ""
    """Why a claim is undecided."""


def undecided(reason: str, measured: str = "not measured") -> Verdict:
    return Verdict(outcome="undecided", measured=measured, reason=reason)


def above(name: str, value: Sample, bound: Sample | float, *, better: Better = "higher") -> Verdict:
    """value > bound. `better` says which values are good, for runs that failed."""
    return _compared(name, ">", value, bound, 1.0, better)


def below(name: str, value: Sample, bound: Sample | float, *, better: Better = "lower") -> Verdict:
    """value < bound. `better` says which values are good, for runs that failed."""
    return _compared(name, "<", value, bound, -1.0, better)


def within(name: str, value: Sample, low: float, high: float) -> Verdict:
    """low ≤ value ≤ high."""
    bounds = f"between {short(low, 7)} and {short(high, 7)}" if low < high else short(low, 7)
    text = f"{name} = {_named(value)}; claimed: {bounds}"
    problem = _too_few(value)
    if problem:
        return undecided(problem, text)
    interval = value.interval()
    if low <= interval.low and interval.high <= high:
        return _verdict("holds", text, interval)
    outside = interval.low > high or interval.high < low
    return _verdict("does not hold" if outside else "undecided", text, interval)


def close(name: str, value: Sample, other: Sample | float, tolerance: float) -> Verdict:
    """value ≈ other ± tolerance."""
    return within(f"{name}, {_named(value)} − {_named(other)}", value - other, -tolerance, tolerance)


def failed(name: str, status: Sample) -> Verdict:
    """At least four of five seeds failed; `status` is None for each that did."""
    return _counted(name, status, expected_failed=True)


def trained(name: str, status: Sample) -> Verdict:
    """At most one of five seeds failed."""
    return _counted(name, status, expected_failed=False)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Every part holds; one that does not hold decides, before any that is undecided."""
    parts = list(verdicts)
    if not parts:
        return undecided(NO_PARTS)
    outcomes = [each.outcome for each in parts]
    outcome: Outcome = "holds"
    if "does not hold" in outcomes:
        outcome = "does not hold"
    elif "undecided" in outcomes:
        outcome = "undecided"
    return _joined(parts, outcome)


def at_least(count: int, verdicts: Iterable[Verdict]) -> Verdict:
    """At least `count` of the parts hold."""
    parts = list(verdicts)
    if not parts:
        return undecided(NO_PARTS)
    holding = sum(each.outcome == "holds" for each in parts)
    possible = holding + sum(each.outcome == "undecided" for each in parts)
    outcome: Outcome = "holds" if holding >= count else "undecided" if possible >= count else "does not hold"
    joined = _joined(parts, outcome)
    return joined.model_copy(update={"measured": f"{holding} of {len(parts)} hold; {joined.measured}"})


def _compared(name: str, relation: str, value: Sample, bound: Sample | float, sign: float, better: Better) -> Verdict:
    text = f"{name} = {_named(value)}; claimed: {relation} {_named(bound)}"
    sides = [each for each in (value, bound) if isinstance(each, Sample)]
    gone = [each for each in sides if each.by_seed and not each.values]
    if gone:
        if len(gone) == len(sides) or any(each.num_failed for each in sides if each not in gone):
            return undecided("all runs of one side failed, and some of the other", text)
        value_is_larger = (gone[0] is value) == (better == "lower")
        outcome: Outcome = "holds" if value_is_larger == (sign > 0) else "does not hold"
        return Verdict(outcome=outcome, measured=text)
    difference = value - bound
    problem = _too_few(difference)
    if problem:
        return undecided(problem, text)
    interval = difference.interval()
    if isinstance(bound, Sample):
        text = f"{text}; difference {interval}"
    lower, upper = sorted((sign * interval.low, sign * interval.high))
    if lower > 0:
        return _verdict("holds", text, interval)
    return _verdict("undecided" if upper > 0 else "does not hold", text, interval)


def _counted(name: str, status: Sample, *, expected_failed: bool) -> Verdict:
    total, count = len(status.by_seed), status.num_failed
    text = f"{name}: {count} of {total} seeds failed"
    if total < COUNTED_SEEDS:
        return undecided(f"failures are counted over {COUNTED_SEEDS} seeds", text)
    most = MOST_FAILED * total // COUNTED_SEEDS
    if count >= total - most:
        return Verdict(outcome="holds" if expected_failed else "does not hold", measured=text)
    if count <= most:
        return Verdict(outcome="does not hold" if expected_failed else "holds", measured=text)
    return undecided("some seeds failed and some did not", text)


def _too_few(value: Sample) -> str:
    if not value.values:
        return "no run has a value"
    if value.is_exact or len(value.values) >= LEAST_SEEDS:
        return ""
    return f"fewer than {LEAST_SEEDS} seeds"


def _named(other: Sample | float) -> str:
    """`1.5 [1.2, 1.8]`, the mean with its 95 % interval; failed runs are counted."""
    if not isinstance(other, Sample):
        return short(other)
    runs = len(other.by_seed)
    if not other.values:
        return f"no value, {runs} of {runs} runs failed" if runs else "not measured"
    mean = f"{short(other.mean)} of a single seed" if runs == 1 and not other.is_exact else str(other.interval())
    return f"{mean} ({other.num_failed} of {runs} runs failed)" if other.num_failed else mean


def _verdict(outcome: Outcome, measured: str, interval: Interval) -> Verdict:
    reason = "the 95 % interval contains the bound" if outcome == "undecided" else ""
    return Verdict(
        outcome=outcome, measured=measured, effect=interval.mean, low=interval.low, high=interval.high, reason=reason
    )


def _joined(parts: list[Verdict], outcome: Outcome) -> Verdict:
    if len(parts) == 1:
        return parts[0].model_copy(update={"outcome": outcome})
    undecided_parts = [each.reason for each in parts if each.outcome == "undecided"]
    reason = "; ".join(dict.fromkeys(undecided_parts)) if outcome == "undecided" else ""
    return Verdict(outcome=outcome, measured=_summary(parts), reason=reason)


def _summary(parts: list[Verdict]) -> str:
    """The measured numbers of all parts, or, of many, of those that do not hold, else of the first and last.

    Parts that read alike, because all runs that they compare with failed, are written once.
    """
    different = dict.fromkeys(each.measured for each in parts)
    if len(different) <= MOST_PARTS:
        return " · ".join(different)
    others = [each for each in parts if each.outcome != "holds"]
    shown = (others or [parts[0], parts[-1]])[:MOST_PARTS]
    left_out = f" · and {len(others) - len(shown)} more" if len(others) > len(shown) else ""
    holding = f"{len(parts) - len(others)} of {len(parts)} parts hold"
    return f"{holding}; {'the others' if others else 'the first and last'}: " + (
        " · ".join(each.measured for each in shown) + left_out
    )
