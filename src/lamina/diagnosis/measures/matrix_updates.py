"""Gradients against updates of the attention matrices over training.

    ‖∂L/∂W‖ and ‖W_{t+1} − W_t‖ of query, key, value and output matrices, each divided by the largest in the network

Liu et al. 2020, figures 5 and 11: gradients are unbalanced, those of queries and keys far smaller; Adam makes the
updates similar. Every line is the mean over the layers of a stack. Facts: `largest/least`, of the gradients and of the
updates at the last watched step.
"""

from __future__ import annotations

from math import nan
from statistics import fmean

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import LARGEST_TO_LEAST, Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.watching.observation import Observation

KINDS = ("query", "key", "value", "output")
QUANTITIES = ("gradient", "update")

NormsByMatrix = dict[Location, dict[int, float]]
"""Norms by stack, kind of sub-layer and kind of matrix, then by layer."""


class MatrixUpdates(Measure):
    title = "Gradients against updates of the attention matrices"
    formula = "‖∂L/∂W‖ and ‖W_{t+1} − W_t‖, relative to the network's largest"
    source = "Liu et al. 2020, figures 5 and 11"
    look_for = (
        "Gradients may differ by orders of magnitude; updates should be close together. Where they are not, the "
        "optimiser does not balance them."
    )
    axes = Axes(x="step", y="relative norm", log_y=True)
    needs = ("history",)
    position = 330

    def take(self, evidence: Evidence) -> Measurement:
        history = [each for each in require(evidence.history) if _norms(each, "update")]
        if not history:
            raise NotMeasurable("no query, key, value or output matrix was recognised among the trained ones")
        series = []
        for quantity in QUANTITIES:
            means = [_relative_means(_norms(each, quantity)) for each in history]
            for location in dict.fromkeys(location for each in means for location in each):
                y = tuple(each.get(location, nan) for each in means)
                x = tuple(each.step for each in history)
                series.append(Series(location=location, quantity=quantity, x=x, y=y))
        facts = [
            Fact(name=LARGEST_TO_LEAST, quantity=quantity, value=_imbalance(_norms(history[-1], quantity)))
            for quantity in QUANTITIES
        ]
        return self.measurement(series, facts=facts)


def _norms(observation: Observation, quantity: str) -> NormsByMatrix:
    found: NormsByMatrix = {}
    for each in observation.matrices:
        if each.location.layer is not None and each.location.matrix in KINDS:
            kind = each.location.model_copy(update={"layer": None})
            norm = each.gradient_norm if quantity == "gradient" else each.update_norm
            found.setdefault(kind, {})[each.location.layer] = norm
    return found


def _relative_means(norms: NormsByMatrix) -> dict[Location, float]:
    """The mean over layers, relative to the largest norm of all."""
    largest = max(norm for layers in norms.values() for norm in layers.values()) or 1.0
    return {location: fmean(norm / largest for norm in layers.values()) for location, layers in norms.items()}


def _imbalance(norms: NormsByMatrix) -> float:
    every = [norm for layers in norms.values() for norm in layers.values()]
    return (max(every) or 1.0) / min(every) if min(every) else float("inf")
