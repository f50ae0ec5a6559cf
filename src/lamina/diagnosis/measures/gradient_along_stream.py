"""Gradient norm of the stream after every sub-layer, divided by the largest in the network.

    ‖∂L/∂x_i‖ ÷ max_j ‖∂L/∂x_j‖

Liu et al. 2020, figure 3, with encoder and decoder apart. The stream is what the sub-layer leaves: in post-LN after
its norm, in pre-LN after the sum. Schemes of several streams have a line for each, where a gradient comes back to it.
Broken, for post-LN: (2/3)^((L−l)/2), what Xiong et al. 2020 derive from the norms alone (supplement, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import nan
from statistics import median

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.line import fit_exponential, ratio
from lamina.diagnosis.measures.reading import NotMeasurable, placement_of, stacks_of, streams
from lamina.diagnosis.recording.records import Record, StackRecord
from lamina.diagnosis.results import Measure, Series

MEASURE = Measure(
    key="gradient-along-stream",
    title="Gradient along the stream",
    formula="‖∂L/∂xᵢ‖ ÷ the largest in the network",
    source="Liu et al. 2020, figure 3",
    look_for="A line that falls to the left vanishes on the way down. Decoders of post-LN do so, at cross-attention; "
    "encoders and single stacks are not expected to, whatever the broken line (the norms alone) says.",
    x_label="sub-layer",
    y_label="relative gradient norm",
    log_y=True,
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def conclude(measure: Measure) -> Measure:
    """Adds how the gradient after the first sub-layer compares with that after the last, and its slope."""
    facts = dict(measure.facts)
    for line in measure.measured:
        facts[f"{line.label} first/last"] = ratio(line.y[0], line.y[-1])
        facts[f"{line.label} slope"] = fit_exponential(line.x, line.y).slope
    return measure.model_copy(update={"facts": facts})


def _take(record: Record) -> Measure:
    stacks = stacks_of(record)
    norms = {label: line for stack in stacks for label, line in _norms(stack).items()}
    largest = max(norm for line in norms.values() for norm in line if norm == norm) or 1.0
    measured = [
        Series(label=label, x=tuple(range(1, len(line) + 1)), y=tuple(norm / largest for norm in line))
        for label, line in norms.items()
    ]
    theory = [line for stack in stacks for line in _theory(stack, norms[stack.name][-1] / largest)]
    facts = {name: value for stack in stacks for name, value in _facts(stack, norms[stack.name])}
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory), "facts": facts})


def _norms(stack: StackRecord) -> dict[str, list[float]]:
    """By stream. Where no gradient comes back to a further stream stands NaN; one that gets none is left out."""
    lines = {label: [seen.gradient_norm for seen in line[1:]] for label, line in streams(stack).items()}
    if None in lines[stack.name]:
        raise NotMeasurable(f"no gradient came back to the stream of the {stack.name}")
    return {
        label: [nan if norm is None else norm for norm in line] for label, line in lines.items() if set(line) != {None}
    }


def _theory(stack: StackRecord, last: float) -> Iterator[Series]:
    if placement_of(stack) == "post":
        number, layers = len(stack.sublayers), stack.num_layers
        y = tuple(last * (2 / 3) ** ((layers - layers * i / number) / 2) for i in range(1, number + 1))
        yield Series(label=f"{stack.name}, norms alone", x=tuple(range(1, number + 1)), y=y, dashes=True)


def _facts(stack: StackRecord, norms: Sequence[float]) -> Iterator[tuple[str, float]]:
    """What a sub-layer leaves of the gradient on the way down, by kind: the median of ‖∂L/∂x_{i−1}‖ ÷ ‖∂L/∂x_i‖."""
    yield f"{stack.name} layers", stack.num_layers
    steps: dict[str, list[float]] = {}
    for sublayer, (below, above) in zip(stack.sublayers[1:], pairwise(norms), strict=True):
        if above:
            steps.setdefault(sublayer.place.kind, []).append(below / above)
    for kind, ratios in steps.items():
        yield f"{stack.name} {kind} below/above", median(ratios)
