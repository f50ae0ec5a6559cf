"""Gradient norm at the input and the output of every norm.

    ‖∂L/∂(input)‖ and ‖∂L/∂(output)‖,  norms counted from 1 upwards in each stack

Takase et al. 2022, figures 3, 4 and 7: in post-LN the gradient shrinks at the norms, and only there.

Facts: `input/output`, the median ratio of the two norms for each kind of sub-layer that a norm belongs to (`end` for
the norms at the stack's ends).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from statistics import median

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.reading import norms_of, stacks_of
from lamina.diagnosis.recording.records import NormRecord, StackRecord

INPUT_TO_OUTPUT = FactName("input/output")


class GradientAtNorms(Measure):
    title = "Gradient at the norms"
    formula = "‖∂L/∂x‖ at the input and the output of every norm"
    source = "Takase et al. 2022, figures 3, 4 and 7"
    look_for = "Where the gradient at the inputs is below that at the outputs, the norms themselves shrink it."
    axes = Axes(x="norm", y="gradient norm", log_y=True)
    needs = ("record",)
    position = 30

    def take(self, evidence: Evidence) -> Measurement:
        stacks = [stack for stack in stacks_of(require(evidence.record)) if stack.norms]
        if not stacks:
            raise NotMeasurable("the stacks have no norms")
        series = [each for stack in stacks for each in _series(stack)]
        return self.measurement(series, facts=[fact for stack in stacks for fact in _facts(stack)])


def _series(stack: StackRecord) -> Iterator[Series]:
    """The series of a stack; NaN where there is no gradient, as at an input that depends on no trained weight."""
    norms = norms_of(stack)
    places = tuple(range(1, len(norms) + 1))
    for quantity, ends in (("input", [norm.input for norm in norms]), ("output", [norm.output for norm in norms])):
        found = [end.gradient_norm for end in ends]
        if set(found) == {None}:
            raise NotMeasurable(f"no gradient reached the norms of the {stack.name}")
        y = tuple(nan if norm is None else norm for norm in found)
        yield Series(location=Location(stack=stack.name), quantity=quantity, x=places, y=y)


def _facts(stack: StackRecord) -> Iterator[Fact]:
    ratios: dict[str, list[float]] = {}
    for norm in stack.norms:
        below, above = norm.input.gradient_norm, norm.output.gradient_norm
        if above and below is not None:
            ratios.setdefault(_kind(stack, norm), []).append(below / above)
    for kind, found in ratios.items():
        yield Fact(name=INPUT_TO_OUTPUT, location=Location(stack=stack.name, sublayer_kind=kind), value=median(found))


def _kind(stack: StackRecord, norm: NormRecord) -> str:
    return "end" if norm.sublayer is None else stack.sublayers[norm.sublayer].place.kind
