"""Can a residual stream, or a value inside a branch, leave the range of half precision?

The check uses the largest value that was measured or, if only norms are known, the largest value that a Gaussian stream
of that norm would have, and the largest output of any module inside the layers, if that is larger. Values grow in
training, so a few times the present one must still be representable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite, isnan
from typing import Annotated

from pydantic import Field, PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Fact, Location, Measurement, Series
from lamina.diagnosis.measures.module_ranges import LARGEST as LARGEST_OUTPUT
from lamina.diagnosis.measures.stream_norms import STREAM
from lamina.diagnosis.measures.watched_streams import LARGEST
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import short
from lamina.options import Options

STREAM_ACTION = "keep the stream in fp32, scale it down, or normalise after every sum"


class Overflow(Check):
    class Thresholds(Options):
        half_precision: PositiveFloat = 65504.0
        """The largest number of half precision: from this on it is a failure."""
        headroom: Annotated[float, Field(ge=1)] = 8.0
        """Factor by which a stream may grow in training: values above `half_precision` ÷ `headroom` are a warning."""
        peak: Annotated[float, Field(ge=1)] = 6.0
        """The largest value of a stream in standard deviations, where only its norm is known; a Gaussian value exceeds
        six once in half a billion."""

    reads = ("stream-norms", "watched-streams", "module-ranges")
    position = 80

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        watched, norms = evidence.get("watched-streams"), evidence.get("stream-norms")
        inside = _inside(evidence.get("module-ranges"))
        for series in watched.select(quantity=LARGEST) if watched else ():
            finding = self._judge_larger(series.location, _largest(series), inside, thresholds)
            if finding.severity == "fine" and len(series.y) < 2:
                reason = f"the values of the {series.location} were observed at one step only"
                finding = self.finding("not measured", reason, location=series.location)
            yield finding
        for series in norms.select(quantity=STREAM) if norms else ():
            value = thresholds.peak * _largest(series) ** 0.5
            yield self._judge_larger(series.location, value, inside, thresholds)

    def _judge_larger(
        self, location: Location, value: float, inside: Mapping[str | None, Fact], thresholds: Thresholds
    ) -> Finding:
        """Judge the stream, or the module inside the layers of its stack with the largest output, if that is larger."""
        module = inside.get(location.stack)
        if module is not None and location.stream is None and module.value > value:
            return self._judge_value(module.location, module.value, thresholds)
        return self._judge_value(location, value, thresholds)

    def _judge_value(self, location: Location, value: float, thresholds: Thresholds) -> Finding:
        limit = thresholds.half_precision
        severity = grade(value if isfinite(value) else inf, limit / thresholds.headroom, limit)
        threshold = limit if severity == "failure" else limit / thresholds.headroom
        inside = location.module is not None
        place = f"{location.module} in layer {location.layer} of the {location.stack}" if inside else f"the {location}"
        sentence = f"the largest value of {place} is about {short(value)}"
        if severity == "fine":
            sentence += f", below the threshold of {short(threshold, 5)}: it stays far inside half precision"
        else:
            subject = "this branch" if inside else "the residual stream"
            what = "exceeds the range of" if severity == "failure" else "may grow beyond the range of"
            sentence += f", above the threshold of {short(threshold, 5)}: {subject} {what} half precision"
        action = f"compute {location.module} in fp32, or scale its input down" if inside else STREAM_ACTION
        return self.finding(
            severity,
            sentence,
            location=location,
            value=value,
            threshold=threshold,
            remedies=(Setting(key="train.precision", value="bf16"), Action(text=action)),
        )


def _inside(ranges: Measurement | None) -> dict[str | None, Fact]:
    """The largest output of a module inside the layers, by stack."""
    found: dict[str | None, Fact] = {}
    for fact in ranges.find_facts(LARGEST_OUTPUT) if ranges else ():
        known = found.get(fact.location.stack)
        if known is None or fact.value > known.value:
            found[fact.location.stack] = fact
    return found


def _largest(series: Series) -> float:
    """The largest number of a series; NaN counts as infinite."""
    return max((inf if isnan(value) else value for value in series.y), default=0.0)
