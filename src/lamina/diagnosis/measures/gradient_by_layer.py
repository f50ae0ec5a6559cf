"""Gradient norm of every weight matrix, by layer and kind.

    ‖E[∂L/∂W]‖_F,  E the mean over mini-batches

Xiong et al. 2020, section 3.4 and figure 3 a, b. In post-LN theirs grows towards the output as (2/3)^((L−l)/2)
(supplement, section 6: every feed-forward norm shrinks the gradient by √(2/3)), in pre-LN it is the same in all layers.
The matrices of one kind in one layer, such as the queries of self- and cross-attention, count as one.

Facts, for each stack and kind of matrix: `first/last`, the ratio of the first layer's norm to the last one's; `slope`,
of ln ‖g‖ per layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import FIRST_TO_LAST, SLOPE, Evidence, Measure, require
from lamina.diagnosis.measures.layer_gradients import norms_by_layer
from lamina.diagnosis.measures.statistics import fit_exponential, ratio
from lamina.residual.base import Placement


class GradientByLayer(Measure):
    title = "Gradient by layer"
    formula = "‖E[∂L/∂W]‖ of every weight matrix"
    source = "Xiong et al. 2020, figure 3 a, b"
    look_for = (
        "A line that falls to the left shows a gradient that vanishes towards the lower layers. Dashed: Xiong's "
        "(2/3)^((L−l)/2) for post-LN and a constant for pre-LN, through the last layer's value."
    )
    axes = Axes(x="layer", y="gradient norm", log_y=True)
    needs = ("gradients",)
    position = 10

    def take(self, evidence: Evidence) -> Measurement:
        norms = norms_by_layer(require(evidence.gradients))
        placements = evidence.structure.placements if evidence.structure else {}
        measured = [
            Series(location=Location(stack=stack, matrix=kind), x=tuple(layers), y=tuple(layers.values()))
            for (stack, kind), layers in norms.items()
        ]
        predicted = [
            series
            for (stack, kind), layers in norms.items()
            if kind == "outer"
            for series in _predicted(stack, placements.get(stack), layers)
        ]
        return self.measurement([*measured, *predicted])

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = []
        for each in measurement.measured:
            if len(each.y) > 1:
                slope = fit_exponential(each.x, each.y).slope
                facts.append(Fact(name=FIRST_TO_LAST, location=each.location, value=ratio(each.y[0], each.y[-1])))
                facts.append(Fact(name=SLOPE, location=each.location, value=slope))
        return measurement.model_copy(update={"facts": tuple(facts)})


def _predicted(stack: str, placement: Placement | None, layers: Mapping[int, float]) -> Iterator[Series]:
    if placement in ("post", "pre"):
        last = max(layers)
        factor = 2 / 3 if placement == "post" else 1.0
        yield Series(
            location=Location(stack=stack, matrix="outer"),
            quantity=f"{placement}-LN",
            role="predicted",
            x=tuple(layers),
            y=tuple(layers[last] * factor ** ((last - layer) / 2) for layer in layers),
        )
