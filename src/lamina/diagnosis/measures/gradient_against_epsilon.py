"""Adam's ε against the size of the gradient.

    ε ÷ √mean(g²) by layer, over the rows of each matrix that have a gradient

Adam divides by √v̂ + ε. Where ε is above √v̂ the update is no longer of the size of the learning rate but smaller in
proportion to the gradient: Kingma and Ba 2015, section 2.1; Wortsman et al. 2023, section 3.4. The median over the
matrices of a layer is shown. Fact: `ε`.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from statistics import median

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.layers import find_layers

EPSILON = FactName("ε")


class GradientAgainstEpsilon(Measure):
    title = "Adam's ε against the gradient"
    formula = "ε ÷ √mean(g²)"
    source = "Kingma and Ba 2015, section 2.1; Wortsman et al. 2023, section 3.4"
    look_for = "Above 1 Adam hardly updates the layer: its gradients are smaller than ε."
    axes = Axes(x="layer", y="ε ÷ gradient", log_y=True)
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 104

    def take(self, evidence: Evidence) -> Measurement:
        planned = evidence.planned
        if planned.epsilon is None:
            raise NotMeasurable("the optimiser has no ε")
        stacks: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for each in find_layers(require(evidence.model)).matrices:
            size = planned.gradient_sizes.get(each.parameter)
            if each.name.layer is not None and size is not None:
                stacks[each.name.stack][each.name.layer + 1].append(planned.epsilon / size if size else inf)
        if not stacks:
            raise NotMeasurable("no matrix inside the layers has a gradient")
        series = [
            Series(
                location=Location(stack=stack),
                x=tuple(sorted(layers)),
                y=tuple(median(layers[layer]) for layer in sorted(layers)),
            )
            for stack, layers in stacks.items()
        ]
        return self.measurement(series, facts=[Fact(name=EPSILON, value=planned.epsilon)])
