"""How much each sub-layer changes the normalised stream.

    mean of |LN(x_k) − LN(x_{k−1})|,  LN without gain and bias

Xie et al. 2023, figure 2 b. For independent Gaussian branches the difference is N(0, ω²), so that the mean is √(2/π)·ω:

    pre-LN    ω_k² = 2 − 2√(V_{k−1} ÷ V_k),  V_k = Var[x_k]          (Theorem 3.3; 2/(√k(√(k−1)+√k)) when x₀ = 0)
    post-LN   ω²   = 2 − 2 ÷ √(1 + σ²),      σ² = Var[f] ÷ Var[x]    (Theorem 3.6)

Here sub-layer k turns x_{k−1} into x_k; the paper calls the same two x_k and x_{k+1}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import pi, sqrt

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.line import fit_logarithms, ratio
from lamina.diagnosis.measures.reading import branch_of, placement_of, positions, stacks_of, stream, variance
from lamina.diagnosis.recording.records import Record, StackRecord
from lamina.diagnosis.results import Measure, Series

MEAN_OF_ABSOLUTE = sqrt(2 / pi)
"""E|z| for z ~ N(0, 1)."""
MEASURE = Measure(
    key="hidden-change",
    title="Change of the hidden state by sub-layer",
    formula="mean |LN(x_k) − LN(x_{k−1})|",
    source="Xie et al. 2023, figure 2 b, Theorems 3.3 and 3.6",
    look_for="A line that fades to the right means collapse: the upper layers hardly change what passes. Broken: the "
    "theorems, from the measured variances.",
    x_label="sub-layer",
    y_label="mean absolute change",
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def conclude(measure: Measure) -> Measure:
    """Adds the power of k with which the change fades, from the fourth sub-layer on, and the last against the first
    third of the stack."""
    facts = {}
    for line in measure.measured:
        facts[f"{line.label} power"] = fit_logarithms(line.x[3:], line.y[3:]).slope
        third = max(1, len(line.y) // 3)
        facts[f"{line.label} last/first third"] = ratio(sum(line.y[-third:]), sum(line.y[:third]))
    return measure.model_copy(update={"facts": facts})


def _take(record: Record) -> Measure:
    stacks = stacks_of(record)
    measured = [_line(stack.name, changes(stack)) for stack in stacks]
    theory = [
        _line(f"{stack.name} in theory", [MEAN_OF_ABSOLUTE * omega for omega in omegas], dashes=True)
        for stack in stacks
        if (omegas := predicted(stack))
    ]
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory)})


def changes(stack: StackRecord) -> list[float]:
    """Of the first stream, at every sub-layer."""
    states = (_normalised(positions(stack, seen)) for seen in stream(stack))
    return [(after - before).abs().mean().item() for before, after in pairwise(states)]


def predicted(stack: StackRecord) -> list[float]:
    """ω of every sub-layer; empty where the theorems say nothing."""
    return list(_omegas(stack))


def _omegas(stack: StackRecord) -> Iterator[float]:
    match placement_of(stack):
        case "pre":
            for before, after in pairwise(variance(stack, seen) for seen in stream(stack)):
                yield _omega(before, after)
        case "post" if all(sublayer.branch is not None for sublayer in stack.sublayers):
            for sublayer in stack.sublayers:
                before = variance(stack, sublayer.before[0])
                yield _omega(before, before + variance(stack, branch_of(stack, sublayer)))


def _omega(before: float, after: float) -> float:
    """√(2 − 2√(V ÷ V′)), V′ with the branch. 0 where V′ < V: the branch is then not independent of the stream."""
    return sqrt(max(0.0, 2 - 2 * sqrt(before / after))) if after else float("nan")


def _normalised(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-12)  # so small that streams of any size are compared alike


def _line(label: str, y: Sequence[float], *, dashes: bool = False) -> Series:
    return Series(label=label, x=tuple(range(1, len(y) + 1)), y=tuple(y), dashes=dashes)
