"""The norm of the gradient of all matrices over training, as the optimiser gets it.

    ‖g‖ = √Σ‖∂L/∂W‖², after clipping

Pascanu et al. 2013 (clipping). A norm that is the same at every step was clipped at every step: the length of the
gradient then says nothing. Facts: `norm`, the median over the watched steps; `variation`, the standard deviation of the
norm ÷ its mean; `watched steps`.
"""

from __future__ import annotations

from math import hypot, isfinite
from statistics import fmean, median, pstdev

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.measures.watched_series import over_steps

NORM, VARIATION, WATCHED = FactName("norm"), FactName("variation"), FactName("watched steps")


class WatchedTotalGradient(Measure):
    title = "Norm of the whole gradient over training"
    formula = "‖g‖ over all matrices, after clipping"
    source = "after Pascanu et al. 2013"
    look_for = "A line that is flat at the clipping norm shows that every gradient is clipped."
    axes = Axes(x="step", y="gradient norm", log_y=True)
    needs = ("history",)
    position = 315

    def take(self, evidence: Evidence) -> Measurement:
        history = [each for each in require(evidence.history) if each.matrices]
        norms = [hypot(*(matrix.gradient_norm for matrix in each.matrices)) for each in history]
        finite = [each for each in norms if isfinite(each)]
        if not finite:
            raise NotMeasurable("no watched step had finite gradients")
        facts = {NORM: median(finite), VARIATION: ratio(pstdev(finite), fmean(finite)), WATCHED: float(len(finite))}
        series = over_steps(Location(), history, norms)
        return self.measurement([series], facts=[Fact(name=name, value=value) for name, value in facts.items()])
