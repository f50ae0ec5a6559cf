"""The loss over training, and its spikes.

    L_t; a spike is a loss above mean + 6σ of the 128 before it

Facts: `traced steps`, the number of steps whose loss is shown; `spikes of the loss`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from statistics import median

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.watched_series import spike_points, trace_series

TRACED_STEPS = FactName("traced steps")
WIDE = 10.0
"""The largest loss relative to the median from which on the axis is logarithmic."""
SPIKES_OF_THE_LOSS = FactName("spikes of the loss")


class WatchedLoss(Measure):
    title = "Loss over training"
    formula = "L_t; a spike is a loss above mean + 6σ of the 128 before it"
    source = "as trainers show it; the limit of a spike is a convention"
    look_for = (
        "A loss that falls and then flattens. A point is a spike: a single step far above the ones before it. One that "
        "the loss recovers from within a few steps does little harm; several show that updates are too large."
    )
    axes = Axes(x="step", y="loss")
    needs = ("history",)
    position = 290

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        losses = [nan if each is None else each for one in history for each in one.trace.losses]
        if all(loss != loss for loss in losses):
            raise NotMeasurable(
                "the loss is not known: it is a field `loss` of the model's output, or what watch.record(loss) is given"
            )
        points = spike_points(history, "loss")
        facts = [Fact(name=TRACED_STEPS, value=float(len(losses)))]
        facts += [Fact(name=SPIKES_OF_THE_LOSS, value=float(sum(len(each.x) for each in points)))]
        series = Series(location=Location(), x=trace_series(history), y=tuple(losses))
        return self.measurement([series, *points], facts=facts, axes=_axes(losses))


def _axes(losses: Sequence[float]) -> Axes:
    """A logarithmic axis where a linear one would show a spike and nothing else."""
    known = [each for each in losses if isfinite(each)]
    wide = bool(known) and min(known) > 0 and max(known) > WIDE * median(known)
    return Axes(x="step", y="loss", log_y=wide)
