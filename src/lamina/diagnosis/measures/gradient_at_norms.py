"""Gradient norm at the input and the output of every norm.

    ‖∂L/∂(input)‖ and ‖∂L/∂(output)‖,  norms counted from 1 upwards in each stack

Takase et al. 2022, figures 3, 4 and 7: in post-LN the gradient shrinks at the norms, and there alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from statistics import median

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.reading import NotMeasurable, norms_of, stacks_of
from lamina.diagnosis.recording.records import NormRecord, Record, StackRecord
from lamina.diagnosis.results import Measure, Series

MEASURE = Measure(
    key="gradient-at-norms",
    title="Gradient at the norms",
    formula="‖∂L/∂x‖ at the input and the output of every norm",
    source="Takase et al. 2022, figures 3, 4 and 7",
    look_for="Where the line of the inputs lies below that of the outputs, the norms themselves shrink the gradient.",
    x_label="norm",
    y_label="gradient norm",
    log_y=True,
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def _take(record: Record) -> Measure:
    stacks = [stack for stack in stacks_of(record) if stack.norms]
    if not stacks:
        raise NotMeasurable("the stacks have no norms")
    measured = [line for stack in stacks for line in _measured(stack)]
    facts = {name: value for stack in stacks for name, value in _facts(stack)}
    return MEASURE.model_copy(update={"measured": tuple(measured), "facts": facts})


def _measured(stack: StackRecord) -> Iterator[Series]:
    """NaN where no gradient comes back, as to an input that no weight has touched."""
    norms = norms_of(stack)
    places = tuple(range(1, len(norms) + 1))
    for label, ends in (("input", [norm.input for norm in norms]), ("output", [norm.output for norm in norms])):
        found = [end.gradient_norm for end in ends]
        if set(found) == {None}:
            raise NotMeasurable(f"no gradient came back to the norms of the {stack.name}")
        y = tuple(nan if norm is None else norm for norm in found)
        yield Series(label=f"{stack.name} {label}", x=places, y=y)


def _facts(stack: StackRecord) -> Iterator[tuple[str, float]]:
    """What the norms leave of the gradient on the way down, by kind of their sub-layer: medians of input ÷ output."""
    ratios: dict[str, list[float]] = {}
    for norm in stack.norms:
        below, above = norm.input.gradient_norm, norm.output.gradient_norm
        if above and below is not None:
            ratios.setdefault(_kind(stack, norm), []).append(below / above)
    for kind, found in ratios.items():
        yield f"{stack.name} {kind} input/output", median(found)


def _kind(stack: StackRecord, norm: NormRecord) -> str:
    return "end" if norm.sublayer is None else stack.sublayers[norm.sublayer].place.kind
