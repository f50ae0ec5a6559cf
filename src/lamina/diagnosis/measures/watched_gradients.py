"""Gradient norms of the weight matrices over training.

    ‖∂L/∂W‖, the median over layers; in the map the largest in each layer

After Liu et al. 2020, figures 5 and 11.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.watched_series import by_kind


class WatchedGradients(Measure):
    title = "Gradients over training"
    formula = "‖∂L/∂W‖, the median over layers"
    source = "after Liu et al. 2020, figures 5 and 11"
    look_for = (
        "Queries and keys, inside the softmax, have smaller gradients than the others in every scheme; Adam "
        "compensates for that. A kind or a layer whose gradient falls to zero is no longer trained."
    )
    axes = Axes(x="step", y="gradient norm", log_y=True)
    needs = ("history",)
    position = 310

    def take(self, evidence: Evidence) -> Measurement:
        series, grids = by_kind(require(evidence.history), lambda each: each.gradient_norm)
        return self.measurement(series, grids=grids)
