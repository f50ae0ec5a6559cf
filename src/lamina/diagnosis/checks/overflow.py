"""Can a residual stream leave the range of half precision?

The check uses the largest value that was measured or, if only norms are known, the largest value that a Gaussian stream
of that norm would have. Streams grow in training, so a few times the present value must still be representable.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, isnan
from typing import Annotated

from pydantic import Field, PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Location, Series
from lamina.diagnosis.measures.stream_norms import STREAM
from lamina.diagnosis.measures.watched_streams import LARGEST
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import short
from lamina.options import Options


class Overflow(Check):
    class Thresholds(Options):
        half_precision: PositiveFloat = 65504.0
        """The largest number of half precision: from this on it is a failure."""
        headroom: Annotated[float, Field(ge=1)] = 8.0
        """Factor by which a stream may grow in training: values above `half_precision` ÷ `headroom` are a warning."""
        peak: Annotated[float, Field(ge=1)] = 6.0
        """The largest value of a stream in standard deviations, where only its norm is known; a Gaussian value exceeds
        six once in half a billion."""

    reads = ("stream-norms", "watched-streams")
    position = 80

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        watched, norms = evidence.get("watched-streams"), evidence.get("stream-norms")
        for series in watched.select(quantity=LARGEST) if watched else ():
            yield self._judge_value(series.location, _largest(series), thresholds)
        for series in norms.select(quantity=STREAM) if norms else ():
            yield self._judge_value(series.location, thresholds.peak * _largest(series) ** 0.5, thresholds)

    def _judge_value(self, location: Location, value: float, thresholds: Thresholds) -> Finding:
        limit = thresholds.half_precision
        severity = grade(value if isfinite(value) else inf, limit / thresholds.headroom, limit)
        threshold = limit if severity == "failure" else limit / thresholds.headroom
        sentence = f"the largest value of the {location} is about {short(value)}"
        if severity == "fine":
            sentence += f", below the threshold of {short(threshold, 5)}: it stays far inside half precision"
        else:
            what = "exceeds the range of" if severity == "failure" else "may grow beyond the range of"
            sentence += f", above the threshold of {short(threshold, 5)}: the residual stream {what} half precision"
        return self.finding(
            severity,
            sentence,
            location=location,
            value=value,
            threshold=threshold,
            remedies=(
                Setting(key="train.precision", value="bf16"),
                Action(text="keep the stream in fp32, scale it down, or normalise after every sum"),
            ),
        )


def _largest(series: Series) -> float:
    """The largest number of a series; NaN counts as infinite."""
    return max((inf if isnan(value) else value for value in series.y), default=0.0)
