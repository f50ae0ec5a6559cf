"""Did updates leave their bands while the model was watched in training?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Annotated

from pydantic import Field

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.watched_updates import (
    FIRST_STEP_OUTSIDE,
    FURTHEST_OUTSIDE,
    STEPS_OUTSIDE,
    STEPS_WITH_SINGLE_UPDATES_OUTSIDE,
    WATCHED_STEPS,
)
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import count, short
from lamina.options import Options


class Unstable(Check):
    """Reports updates outside their bands, which are found during training by the options of `diagnose.band`."""

    class Thresholds(Options):
        observed: Annotated[int, Field(ge=2)] = 6
        """Number of watched steps below which updates are not said to be stable: a band needs five before it can judge
        the next one (`diagnose.band.min_observed`)."""

    reads = ("watched-updates",)
    position = 10

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("watched-updates")
        steps = measurement.fact(WATCHED_STEPS) if measurement else None
        outside = measurement.fact(STEPS_OUTSIDE) if measurement else None
        if measurement is None or steps is None or outside is None:
            return
        watched = count(int(steps), "watched step")
        first, furthest = measurement.fact(FIRST_STEP_OUTSIDE), measurement.fact(FURTHEST_OUTSIDE)
        if not outside or first is None or furthest is None:
            if steps < thresholds.observed:
                reason = f"there were only {watched}, too few to compare an update with those before it"
                yield self.finding("not measured", reason if steps else "no watched step updated a matrix")
                return
            single = measurement.fact(STEPS_WITH_SINGLE_UPDATES_OUTSIDE)
            sentence = f"updates stayed in their bands in {watched}"
            sentence += f", except for single matrices at {count(int(single), 'step')}" if single else ""
            yield self.finding("fine", sentence, value=0.0, threshold=0.0)
            return
        yield self.finding(
            "warning" if isfinite(furthest) else "failure",
            f"updates left their bands at {outside:,.0f} of {watched}, first at step {first:,.0f}, up to "
            f"{short(furthest)} times their usual size at the learning rate",
            value=outside,
            threshold=0.0,
            remedies=(
                Setting(key="train.clip_norm", value=1.0),
                Action(text="halve the learning rate or double the warm-up, and examine the batches of these steps"),
            ),
        )
