"""Residual sums and norms of every layer, as they were seen in the forward pass.

    number of residual sums, of norms, and of sums in which the stream is added to itself

Not in the papers. Layers of one stack are built alike: one that lacks a sum or a norm that the others have was written
or edited by mistake. Lamina's own stacks are built by their scheme and are left out.

Facts of each stack: `final norm`, 1 if a norm follows the last layer; `pre-norm`, 1 if branches read the output of a
norm and the stream itself is not normalised; `input ÷ branches`, the root mean square of the stream's input relative to
the sum of all branches, of a pre-norm stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.reading import placement_of, positions, stacks_of, stream
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.recording.records import StackRecord

SUMS, NORMS, REPEATED = "residual sums", "norms", "stream added to itself"
"""The quantities of the lines."""
FINAL_NORM, PRE_NORM = FactName("final norm"), FactName("pre-norm")
INPUT_TO_BRANCHES = FactName("input ÷ branches")


class LayerStructure(Measure):
    title = "Residual sums and norms of every layer"
    formula = "number of residual sums and of norms in a layer"
    source = "not in the papers"
    look_for = "All layers of a stack should be alike."
    axes = Axes(x="layer", y="number")
    needs = ("record",)
    position = 4

    def take(self, evidence: Evidence) -> Measurement:
        stacks = [each for each in stacks_of(require(evidence.record)) if each.own is None]
        if not stacks:
            raise NotMeasurable("Lamina's own stacks are built by their scheme")
        series = [each for stack in stacks for each in _lines(stack)]
        return self.measurement(series, facts=[fact for stack in stacks for fact in _facts(stack)])


def _lines(stack: StackRecord) -> Iterator[Series]:
    layers = sorted({each.place.layer for each in stack.sublayers})
    layer_of = {each.place.index: each.place.layer for each in stack.sublayers}
    counts = {
        SUMS: Counter(each.place.layer for each in stack.sublayers if each.branch is not None),
        NORMS: Counter(layer_of[each.sublayer] for each in stack.norms if each.sublayer is not None),
        REPEATED: Counter(stack.repeated),
    }
    for quantity, found in counts.items():
        x, y = tuple(layer + 1 for layer in layers), tuple(float(found[layer]) for layer in layers)
        yield Series(location=Location(stack=stack.name), quantity=quantity, x=x, y=y)


def _facts(stack: StackRecord) -> Iterator[Fact]:
    location = Location(stack=stack.name)
    is_pre = placement_of(stack) == "pre"
    ends = any(each.sublayer is None for each in stack.norms)
    yield Fact(name=FINAL_NORM, location=location, value=float(ends))
    yield Fact(name=PRE_NORM, location=location, value=float(is_pre))
    if is_pre:
        line = stream(stack)
        first, last = positions(stack, line[0]), positions(stack, line[-1])
        size = ratio(first.square().mean().sqrt().item(), (last - first).square().mean().sqrt().item())
        yield Fact(name=INPUT_TO_BRANCHES, location=location, value=size)
