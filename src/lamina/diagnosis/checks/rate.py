"""Will training at this rate carry the weights to where the gradient vanishes, or explodes?

Judged is how far every weight can move before the weakest layer's share of the gradient is what `vanishing` calls a
failure, or numbers overflow, in units of the highest rate that is planned: Adam moves a weight by about its rate at a
step. Not in the papers; how often it is right is in docs/log.md. Nothing is said without a known rate, nor where the
gradient has vanished before any move, which is a verdict of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, isinf, isnan, log
from typing import NamedTuple

from lamina.diagnosis.checks.evidence import Evidence, Severity, facts_ending, grade, number
from lamina.diagnosis.results import Series, Verdict
from lamina.diagnosis.thresholds import VerdictOptions

TINY = 1e-30


class Room(NamedTuple):
    """How far all weights can move …"""

    moved: float
    end: str
    """… until the gradient `vanishes` or `explodes`; `unknown` where nothing happens as far as was measured."""


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("gradient-when-moved")
    if measure is None or evidence.rate is None:
        return
    at_start = facts_ending(measure, " at the start")
    for curve in measure.measured:
        if curve.label not in at_start or at_start[curve.label] <= options.vanishing_failure or isnan(curve.y[0]):
            continue  # no gradient to lose
        room = room_to_move(curve, at_start[curve.label], options.vanishing_failure)
        times = room.moved / evidence.rate
        # Where nothing happened as far as was measured, it is only the distance that may be too short.
        known = inf if room.end == "unknown" and times >= options.reach_failure else times
        severity = "warning" if room.end == "unknown" and known < inf else _grade(known, options)
        threshold = options.reach_failure if severity == "failure" else options.reach_warning
        yield Verdict(
            kind="rate",
            severity=severity,
            sentence=f"{_found(room, curve.label, options)}, {times:.3g} times the highest rate of "
            f"{number(evidence.rate)}: {_meaning(room, severity, options)}",
            advice="" if severity == "fine" else _advice(room, threshold, evidence, options),
            value=known,
            threshold=threshold,
            where=curve.label,
        )


def room_to_move(curve: Series, at_start: float, threshold: float) -> Room:
    """Where the curve first falls to the threshold, or ends."""
    places = [(0.0, at_start), *zip(curve.x, curve.y, strict=True)]
    for (near, above), (far, below) in pairwise(places):
        if isinf(below):
            return Room(far, "explodes")
        if isnan(below):
            return Room(near, "unknown")
        if below <= threshold:
            # A straight line from the start; further on, one between logarithms.
            part = log(above / threshold) / log(above / max(below, TINY))
            return Room(part * far if near == 0 else exp(log(near) + part * log(far / near)), "vanishes")
    return Room(curve.x[-1], "unknown")


def _grade(times: float, options: VerdictOptions) -> Severity:
    return grade(1 / times if times else inf, 1 / options.reach_warning, 1 / options.reach_failure)


def _found(room: Room, stack: str, options: VerdictOptions) -> str:
    if room.end == "explodes":
        what = f"the gradients of the {stack} overflow"
    else:
        kept = "keeps more than" if room.end == "unknown" else "has less than"
        what = f"the weakest layer of the {stack} {kept} {number(options.vanishing_failure)} of the last one's gradient"
    return f"{what} when all weights have moved by {number(room.moved)}"


def _meaning(room: Room, severity: Severity, options: VerdictOptions) -> str:
    if severity == "fine":
        return "far enough"
    if room.end == "unknown":
        return "nothing is known so far out"
    if severity == "failure":
        return f"below {number(options.reach_failure)}, training is likely to carry them there"
    return f"below {number(options.reach_warning)}, where training failed on a harder task"


def _advice(room: Room, threshold: float, evidence: Evidence, options: VerdictOptions) -> str:
    """A rate at which the same would not be said again."""
    if room.end == "unknown":
        return f"take a rate below {number(room.moved / options.reach_failure)}"
    return f"take a rate below {number(room.moved / threshold)}, or {evidence.cures('rate')}, where it is kept"
