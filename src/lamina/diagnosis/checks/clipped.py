"""Is every gradient clipped to a norm that is far too small?

Clipping to 1 at every step is usual and harmless with Adam. A norm below a hundredth brings gradients near Adam's ε,
and with SGD it stops training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.watched_gradient_norm import NORM, VARIATION, WATCHED
from lamina.diagnosis.results import Finding, Setting
from lamina.formatting import short
from lamina.options import Options


class Clipped(Check):
    class Thresholds(Options):
        norm: PositiveFloat = 0.01
        """The norm to which every gradient is clipped, below which it is a warning: usual clipping norms are 0.1 to
        5."""
        variation: PositiveFloat = 0.02
        """The relative standard deviation of the norm over steps, below which every gradient was clipped. Biases and
        gains, which the norm leaves out, let it vary a little."""
        observed: Annotated[int, Field(ge=2)] = 3
        """Number of watched steps below which nothing is said."""

    reads = ("watched-gradient-norm",)
    position = 14

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("watched-gradient-norm")
        values = {each.name: each.value for each in measurement.facts} if measurement else {}
        if NORM not in values:
            return
        if values[WATCHED] < thresholds.observed:
            yield self.finding("not measured", f"only {values[WATCHED]:.0f} watched steps had gradients")
            return
        is_clipped = values[NORM] < thresholds.norm and values[VARIATION] < thresholds.variation
        sentence = f"the gradient norm over all matrices is {short(values[NORM])} in the median watched step"
        if is_clipped:
            sentence += (
                f" and almost the same in all of them, below the threshold of {short(thresholds.norm)}: every gradient "
                "is clipped to a norm that is far too small"
            )
        yield self.finding(
            "warning" if is_clipped else "fine",
            sentence,
            value=values[NORM],
            threshold=thresholds.norm,
            remedies=(Setting(key="train.clip_norm", value=1.0),),
        )
