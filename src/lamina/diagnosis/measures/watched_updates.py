"""Relative updates of the weight matrices over training.

    |W_{t+1} − W_t| ÷ |W_t|, the median over layers; in the map the largest in each layer

After Liu et al. 2020, figures 5 and 11. Facts: `watched steps`; `steps outside`, at which enough updates left their
band for a warning; `steps with single updates outside`; and if there were steps outside, `first step outside`, `most
matrices outside` and `furthest outside` (the ratio of an update to its usual size).
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.watched_series import by_kind
from lamina.diagnosis.watching.observation import Observation

WATCHED_STEPS = FactName("watched steps")
STEPS_OUTSIDE = FactName("steps outside")
STEPS_WITH_SINGLE_UPDATES_OUTSIDE = FactName("steps with single updates outside")
FIRST_STEP_OUTSIDE = FactName("first step outside")
MOST_MATRICES_OUTSIDE = FactName("most matrices outside")
FURTHEST_OUTSIDE = FactName("furthest outside")


class WatchedUpdates(Measure):
    title = "Updates over training"
    formula = "|W_{t+1} − W_t| ÷ |W_t|, the median over layers"
    source = "after Liu et al. 2020, figures 5 and 11"
    look_for = (
        "Lines of one kind should move together with the learning rate. A line, or a layer in the map, that departs "
        "from the others shows where training goes wrong."
    )
    axes = Axes(x="step", y="relative update", log_y=True)
    needs = ("history",)
    position = 300

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        series, grids = by_kind(history, lambda each: each.relative_update)
        facts = [Fact(name=name, value=value) for name, value in _outside(history).items()]
        return self.measurement(series, grids=grids, facts=facts)


def _outside(history: Sequence[Observation]) -> dict[FactName, float]:
    unstable = [each for each in history if each.unstable]
    updated = sum(bool(each.matrices) for each in history)
    facts = {WATCHED_STEPS: float(updated), STEPS_OUTSIDE: float(len(unstable))}
    facts[STEPS_WITH_SINGLE_UPDATES_OUTSIDE] = float(sum(bool(each.outside) for each in history) - len(unstable))
    if unstable:
        facts[FIRST_STEP_OUTSIDE] = float(unstable[0].step)
        facts[MOST_MATRICES_OUTSIDE] = float(max(len(each.outside) for each in unstable))
        furthest = max((each.furthest for each in unstable), key=lambda outside: outside.distance)
        facts[FURTHEST_OUTSIDE] = furthest.times_usual
    return facts
