"""Will training at the planned learning rate move the weights to where the gradient vanishes or overflows?

The check measures how far all weights can move before the weakest layer's share of the last layer's gradient falls to a
threshold, or gradients overflow, in units of the highest planned learning rate: Adam moves a weight by about the
learning rate at every step. This is not in the papers; docs/experiments.md says how often it was right. A stack
whose gradient has vanished before any weight moved is left to the check `vanishing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, isinf, isnan, log
from typing import Literal, NamedTuple

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Location, Series
from lamina.diagnosis.measures.gradient_when_moved import UNMOVED
from lamina.diagnosis.results import Finding, Remedy, Setting, Severity
from lamina.formatting import short
from lamina.options import Options

TINY = 1e-30


class Reach(NamedTuple):
    """The distance that all weights can move, and what happens at that distance."""

    distance: float
    end: Literal["vanishes", "overflows", "unknown"]
    """What happens at this distance; `unknown` if the gradient was kept up to the largest distance measured."""


class LearningRate(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 40.0
        """The distance that all weights can move before the gradient is lost, in units of the highest learning rate,
        below which it is a warning: runs on a harder task failed below it."""
        failure: PositiveFloat = 15.0
        """The same distance, below which training is expected to fail. Calibrated on small runs, see
        lamina.studies.calibration."""
        gradient_share: PositiveFloat = 0.1
        """The gradient is lost when the weakest layer's gradient norm relative to the last layer's falls to this. The
        same as the failure threshold of the check `vanishing`."""

    reads = ("gradient-when-moved",)
    predicts_failure = True
    position = 40

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("gradient-when-moved")
        if measurement is None:
            return
        for curve in measurement.measured:
            location = Location(stack=curve.location.stack)
            at_start = measurement.fact(UNMOVED, stack=location.stack)
            if at_start is None or isnan(at_start) or isnan(curve.y[0]):
                yield self.finding(
                    "not measured", f"no gradient reaches the layers of the {location}", location=location
                )
            elif at_start <= thresholds.gradient_share:
                yield self.finding(
                    "not measured",
                    f"the gradient of the {location} has vanished before any weight moved: the weakest layer has "
                    f"{short(at_start)} of the last layer's",
                    location=location,
                )
            elif evidence.learning_rate is None:
                yield self.finding(
                    "not measured", "the highest learning rate of training is not known", location=location
                )
            else:
                reach = find_reach(curve, at_start, thresholds.gradient_share)
                yield self._judge_reach(reach, location, evidence.learning_rate, evidence, thresholds)

    def _judge_reach(
        self, reach: Reach, location: Location, learning_rate: float, evidence: CheckEvidence, thresholds: Thresholds
    ) -> Finding:
        times = reach.distance / learning_rate
        # If the gradient was kept up to the largest distance measured, only a lower bound of the reach is known.
        value = inf if reach.end == "unknown" and times >= thresholds.failure else times
        severity = "warning" if reach.end == "unknown" and value < inf else _grade(value, thresholds)
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        return self.finding(
            severity,
            f"{_describe(reach, location, thresholds)}, {short(times)} times the highest learning rate of "
            f"{short(learning_rate)}: {_meaning(reach, severity, thresholds)}",
            location=location,
            value=value,
            threshold=threshold,
            remedies=_remedies(reach, threshold, evidence, thresholds),
        )


def find_reach(curve: Series, at_start: float, threshold: float) -> Reach:
    """The distance at which the curve first falls to the threshold, overflows, or ends."""
    points = [(0.0, at_start), *zip(curve.x, curve.y, strict=True)]
    for (near, above), (far, below) in pairwise(points):
        if isinf(below):
            return Reach(far, "overflows")
        if isnan(below):
            return Reach(near, "unknown")
        if below <= threshold:
            # Linear in the distance up to the first point, then linear in its logarithm.
            part = log(above / threshold) / log(above / max(below, TINY))
            return Reach(part * far if near == 0 else exp(log(near) + part * log(far / near)), "vanishes")
    return Reach(curve.x[-1], "unknown")


def _grade(times: float, thresholds: LearningRate.Thresholds) -> Severity:
    return grade(1 / times if times else inf, 1 / thresholds.warning, 1 / thresholds.failure)


def _describe(reach: Reach, location: Location, thresholds: LearningRate.Thresholds) -> str:
    if reach.end == "overflows":
        what = f"the gradients of the {location} overflow"
    else:
        keeps = "keeps more than" if reach.end == "unknown" else "has less than"
        share = short(thresholds.gradient_share)
        what = f"the weakest layer of the {location} {keeps} {share} of the last layer's gradient"
    return f"{what} when all weights have moved by {short(reach.distance)}"


def _meaning(reach: Reach, severity: Severity, thresholds: LearningRate.Thresholds) -> str:
    if severity == "fine":
        return f"above the threshold of {short(thresholds.warning if reach.end != 'unknown' else thresholds.failure)}"
    if reach.end == "unknown":
        return f"larger distances were not measured, and it is below the threshold of {short(thresholds.failure)}"
    if severity == "failure":
        return f"below the threshold of {short(thresholds.failure)}, training is likely to move them that far"
    return f"below the threshold of {short(thresholds.warning)}, where training failed on a harder task"


def _remedies(
    reach: Reach, threshold: float, evidence: CheckEvidence, thresholds: LearningRate.Thresholds
) -> tuple[Remedy, ...]:
    """A learning rate at which the check would pass, and schemes that keep the gradient."""
    if reach.end == "unknown":
        return (_lower(reach.distance / thresholds.failure),)
    return _lower(reach.distance / threshold), evidence.schemes_that_avoid("learning-rate")


def _lower(bound: float) -> Setting:
    return Setting(key="schedule.learning_rate", relation="<", value=bound)
