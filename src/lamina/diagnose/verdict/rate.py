"""Will training at this rate carry the weights to where the gradient vanishes?

Judged is how far every weight can move before the weakest layer's share of the gradient is what `vanishing` calls a
failure, in units of the highest rate that is planned: Adam moves a weight by about its rate at a step. Not in the
papers; how often it is right is in docs/log.md. Without a known rate nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, isfinite, isnan, log

from lamina.diagnose.results import Series, Verdict
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdict.evidence import Evidence, grade, number
from lamina.diagnose.verdict.vanishing import weakest_layers

TINY = 1e-30


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("gradient-when-moved")
    if measure is None or evidence.rate is None:
        return
    at_start = {stack: found.share for stack, found in weakest_layers(evidence).items()}
    for curve in measure.measured:
        if isnan(at_start.get(curve.label, 1.0)) or isnan(curve.y[0]):
            continue  # there was no gradient to lose
        room = room_to_move(curve, at_start.get(curve.label, 1.0), options.vanishing_failure)
        times = room / evidence.rate
        severity = grade(1 / times if times else inf, 1 / options.reach_warning, 1 / options.reach_failure)
        threshold = options.reach_failure if severity == "failure" else options.reach_warning
        found = f"the weakest layer of the {curve.label} {_when(room, max(curve.x), options)}"
        advice = ""
        if 0 < room < inf:
            found += f", {number(times)} times the highest rate of {number(evidence.rate)}"
        if severity != "fine":
            found += f", below {number(threshold)}: training is likely to carry them there" if room else ""
            lower = f"a rate below {number(room / options.reach_failure)}, or " if room else ""
            advice = f"{lower}{evidence.cures('vanishing')}"
        yield Verdict(
            kind="rate",
            severity=severity,
            sentence=found,
            advice=advice,
            value=times,
            threshold=threshold,
            where=curve.label,
        )


def _when(room: float, furthest: float, options: VerdictOptions) -> str:
    share = f"{number(options.vanishing_failure)} of the last one's gradient"
    if room == 0:
        return f"has less than {share} from the start"
    if room == inf:
        return f"keeps more than {share} wherever the weights move by up to {number(furthest)}"
    return f"has less than {share} once all weights have moved by {number(room)}"


def room_to_move(curve: Series, at_start: float, threshold: float) -> float:
    """Where the curve first falls to the threshold; infinite if it never does, or breaks off before."""
    if at_start <= threshold:
        return 0.0
    places = [(0.0, at_start), *zip(curve.x, curve.y, strict=True)]
    for (near, above), (far, below) in pairwise(places):
        if not isfinite(below):
            return inf
        if below <= threshold:
            # A straight line from the start; further on, one between logarithms.
            part = log(above / threshold) / log(above / max(below, TINY))
            return part * far if near == 0 else exp(log(near) + part * log(far / near))
    return inf
