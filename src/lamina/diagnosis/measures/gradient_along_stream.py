"""Gradient norm of the residual stream after every sub-layer, divided by the largest in the network.

    ‖∂L/∂x_i‖ ÷ max_j ‖∂L/∂x_j‖

Liu et al. 2020, figure 3, with encoder and decoder apart. The stream is the sub-layer's result: in post-LN after its
norm, in pre-LN after the sum. Schemes of several streams have a line for each stream that receives a gradient. Dashed,
for post-LN: (2/3)^((L−l)/2), what Xiong et al. 2020 derive from the norms alone (supplement, section 6).

Facts: `layers`, of a stack; `below/above`, for each kind of sub-layer, the median of ‖∂L/∂x_{i−1}‖ ÷ ‖∂L/∂x_i‖;
`first/last` and `slope` (of ln ‖g‖ per sub-layer), for each stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import nan
from statistics import median

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import FIRST_TO_LAST, SLOPE, Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.reading import placement_of, stacks_of, streams
from lamina.diagnosis.measures.statistics import fit_exponential, ratio
from lamina.diagnosis.recording.records import StackRecord

LAYERS = FactName("layers")
BELOW_TO_ABOVE = FactName("below/above")


class GradientAlongStream(Measure):
    title = "Gradient along the stream"
    formula = "‖∂L/∂xᵢ‖ ÷ the largest in the network"
    source = "Liu et al. 2020, figure 3"
    look_for = (
        "A line that falls to the left shows a gradient that vanishes towards the input. Post-LN decoders lose theirs "
        "at cross-attention; encoders and single stacks are not expected to, although the dashed line, derived from "
        "the norms alone, predicts it."
    )
    axes = Axes(x="sub-layer", y="relative gradient norm", log_y=True)
    needs = ("record",)
    position = 20

    def take(self, evidence: Evidence) -> Measurement:
        stacks = stacks_of(require(evidence.record))
        norms = {location: line for stack in stacks for location, line in _norms(stack).items()}
        largest = max((norm for line in norms.values() for norm in line if norm == norm), default=nan) or 1.0
        measured = [
            Series(location=location, x=tuple(range(1, len(line) + 1)), y=tuple(norm / largest for norm in line))
            for location, line in norms.items()
        ]
        first = {stack.name: norms[Location(stack=stack.name)] for stack in stacks}
        predicted = [series for stack in stacks for series in _predicted(stack, first[stack.name][-1] / largest)]
        facts = [fact for stack in stacks for fact in _facts(stack, first[stack.name])]
        return self.measurement([*measured, *predicted], facts=facts)

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = list(measurement.facts)
        for each in measurement.measured:
            slope = fit_exponential(each.x, each.y).slope
            facts.append(Fact(name=FIRST_TO_LAST, location=each.location, value=ratio(each.y[0], each.y[-1])))
            facts.append(Fact(name=SLOPE, location=each.location, value=slope))
        return measurement.model_copy(update={"facts": tuple(facts)})


def _norms(stack: StackRecord) -> dict[Location, list[float]]:
    """The norms by stream; NaN where no gradient reaches a further stream, which is left out if it never gets any."""
    lines = {location: [each.gradient_norm for each in line[1:]] for location, line in streams(stack).items()}
    if None in lines[Location(stack=stack.name)]:
        raise NotMeasurable(f"no gradient reached the stream of the {stack.name}")
    return {
        location: [nan if norm is None else norm for norm in line]
        for location, line in lines.items()
        if set(line) != {None}
    }


def _predicted(stack: StackRecord, last: float) -> Iterator[Series]:
    if placement_of(stack) == "post":
        number, layers = len(stack.sublayers), stack.num_layers
        yield Series(
            location=Location(stack=stack.name),
            quantity="norms alone",
            role="predicted",
            x=tuple(range(1, number + 1)),
            y=tuple(last * (2 / 3) ** ((layers - layers * i / number) / 2) for i in range(1, number + 1)),
        )


def _facts(stack: StackRecord, norms: Sequence[float]) -> Iterator[Fact]:
    yield Fact(name=LAYERS, location=Location(stack=stack.name), value=stack.num_layers)
    steps: dict[str, list[float]] = {}
    for sublayer, (below, above) in zip(stack.sublayers[1:], pairwise(norms), strict=True):
        if above:
            steps.setdefault(sublayer.place.kind, []).append(below / above)
    for kind, ratios in steps.items():
        yield Fact(name=BELOW_TO_ABOVE, location=Location(stack=stack.name, sublayer_kind=kind), value=median(ratios))
