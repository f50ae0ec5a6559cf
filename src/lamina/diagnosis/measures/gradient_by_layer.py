"""Gradient norm of every weight matrix, by layer and kind.

    ‖E[∂L/∂W]‖_F,  E the mean over mini-batches

Xiong et al. 2020, section 3.4 and figure 3 a, b. In post-LN theirs grows towards the output as (2/3)^((L−l)/2)
(supplement, section 6: every feed-forward norm shrinks what comes back by √(2/3)), in pre-LN it is the same in all
layers. The matrices of one kind in one layer, such as the queries of self- and cross-attention, count as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import hypot
from typing import NamedTuple

from torch import Tensor

from lamina.diagnosis.measures.expected_gradient import ExpectedGradient
from lamina.diagnosis.measures.line import fit_exponential, ratio
from lamina.diagnosis.measures.reading import NotMeasurable, placements
from lamina.diagnosis.recording.records import MatrixName, Record
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Series
from lamina.residual.base import Placement

MEASURE = Measure(
    key="gradient-by-layer",
    title="Gradient by layer",
    formula="‖E[∂L/∂W]‖ of every weight matrix",
    source="Xiong et al. 2020, figure 3 a, b",
    look_for="Lines that fall to the left lose their gradient on the way down. Broken: Xiong's (2/3)^((L−l)/2) for "
    "post-LN and an even line for pre-LN, through the last layer's value.",
    x_label="layer",
    y_label="gradient norm",
    log_y=True,
)


def take(records: Sequence[Record]) -> Measure:
    expected = ExpectedGradient()
    for record in records:
        expected.add(record.gradients)
    return take_expected(expected.mean(), placements(records[0].stacks))


def take_expected(gradients: Mapping[MatrixName, Tensor], placed: Mapping[str, Placement | None]) -> Measure:
    """From the expected gradients and, for the theory, where the norms of each stack stand."""
    norms = norms_by_layer(gradients)
    measured = [
        Series(label=f"{stack} {kind}", x=tuple(layer + 1 for layer in layers), y=tuple(layers.values()))
        for (stack, kind), layers in norms.items()
    ]
    theory = [
        line
        for (stack, kind), layers in norms.items()
        if kind == "outer"
        for line in _theory(stack, placed.get(stack), layers)
    ]
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory)})


def conclude(measure: Measure) -> Measure:
    """Adds how the first layer's gradient compares with the last one's, and the slope of ln ‖g‖ per layer."""
    facts = {}
    for line in measure.measured:
        if len(line.y) > 1:
            facts[f"{line.label} first/last"] = ratio(line.y[0], line.y[-1])
            facts[f"{line.label} slope"] = fit_exponential(line.x, line.y).slope
    return measure.model_copy(update={"facts": facts})


def norms_by_layer(gradients: Mapping[MatrixName, Tensor]) -> dict[tuple[str, str], dict[int, float]]:
    """The Frobenius norms by stack and kind, then by layer from 0. Embeddings and heads belong to no layer."""
    squares: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for name, gradient in gradients.items():
        if name.layer is not None:
            squares[name.stack, name.kind][name.layer] += norm_of(gradient).item() ** 2
    if not squares:
        raise NotMeasurable("no weight matrix belongs to a layer")
    return {key: {layer: layers[layer] ** 0.5 for layer in sorted(layers)} for key, layers in squares.items()}


def over_kinds(norms: Mapping[tuple[str, str], Mapping[int, float]]) -> dict[str, dict[int, float]]:
    """By stack and layer, the norm over all kinds of matrices that the last layer has; without layers that lack one."""
    by_stack: dict[str, list[Mapping[int, float]]] = defaultdict(list)
    for (stack, _), layers in norms.items():
        by_stack[stack].append(layers)
    return {stack: _over_kinds(kinds) for stack, kinds in by_stack.items()}


def _over_kinds(kinds: Sequence[Mapping[int, float]]) -> dict[int, float]:
    last = max(layer for layers in kinds for layer in layers)
    compared = [layers for layers in kinds if last in layers]
    common = sorted(set.intersection(*(set(layers) for layers in compared)))
    return {layer: hypot(*(layers[layer] for layers in compared)) for layer in common}


class Weakest(NamedTuple):
    """Of the layers below the last, the one with the smallest gradient."""

    layer: int
    last: int
    share: float
    """Its gradient ÷ that of the last; NaN where the last has none, as when branches start at zero."""


def weakest(layers: Mapping[int, float]) -> Weakest:
    """Of two layers or more, by number."""
    last = max(layers)
    layer = min((each for each in layers if each < last), key=lambda each: layers[each])
    return Weakest(layer, last, ratio(layers[layer], layers[last]))


def _theory(stack: str, placement: Placement | None, layers: Mapping[int, float]) -> Iterator[Series]:
    if placement in ("post", "pre"):
        last = max(layers)
        factor = 2 / 3 if placement == "post" else 1.0
        y = tuple(layers[last] * factor ** ((last - layer) / 2) for layer in layers)
        yield Series(label=f"{stack} outer, {placement}-LN in theory", x=tuple(l + 1 for l in layers), y=y, dashes=True)
