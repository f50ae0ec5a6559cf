"""The condition of Adam's update over training.

    κ = √Σ(∂uᵢ/∂gᵢ)², over all weights, of the optimiser's real state

Xie et al. 2023, Theorem 3.2; `adam_conditioning` has the formula and the values by layer at the last watched step.
"""

from __future__ import annotations

from math import nan

from lamina.diagnosis.measurement import Axes, Location, Measurement
from lamina.diagnosis.measures.adam_conditioning import CONDITION_NUMBER
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.watched_series import over_steps


class WatchedCondition(Measure):
    title = "Condition of Adam's update over training"
    formula = "κ = √Σ(∂uᵢ/∂gᵢ)², over all weights, of the optimiser's real state"
    source = "Xie et al. 2023, Theorem 3.2"
    look_for = (
        "With a large κ tiny changes of the gradient reverse the update; it should fall as gradients become larger "
        "than Adam's ε, and be small throughout a warm-up."
    )
    axes = Axes(x="step", y="κ", log_y=True)
    needs = ("history",)
    position = 340

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        if history[-1].conditioning is None:
            raise NotMeasurable(history[-1].no_conditioning)
        found = [None if each.conditioning is None else each.conditioning.fact(CONDITION_NUMBER) for each in history]
        return self.measurement([over_steps(Location(), history, [nan if each is None else each for each in found])])
