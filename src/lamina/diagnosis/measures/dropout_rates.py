"""The largest probability of dropout in every layer.

    max p over the calls of dropout, on values and on attention weights

Srivastava et al. 2014. Facts: `p`, for every module that drops values in training.
"""

from __future__ import annotations

from collections import defaultdict

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require

PROBABILITY = FactName("p")


class DropoutRates(Measure):
    title = "Dropout"
    formula = "the largest p of every layer"
    source = "Srivastava et al. 2014"
    look_for = "Usual values are 0 to 0.3. Above 0.5 most of a branch is noise."
    axes = Axes(x="layer", y="largest p")
    needs = ("record",)
    position = 49

    def take(self, evidence: Evidence) -> Measurement:
        found = require(evidence.record).calls.dropouts
        if not found:
            raise NotMeasurable("nothing is dropped: the model is in evaluation mode, or has no dropout")
        stacks: dict[str, dict[int, float]] = defaultdict(dict)
        for location, probability in found.items():
            if location.stack is not None and location.layer is not None:
                layers = stacks[location.stack]
                layers[location.layer] = max(probability, layers.get(location.layer, 0.0))
        series = [
            Series(
                location=Location(stack=stack), x=tuple(sorted(layers)), y=tuple(layers[at] for at in sorted(layers))
            )
            for stack, layers in stacks.items()
        ]
        facts = [Fact(name=PROBABILITY, location=location, value=value) for location, value in found.items()]
        return self.measurement(series, facts=facts)
