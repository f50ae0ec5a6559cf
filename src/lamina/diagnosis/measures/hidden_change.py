"""How much each sub-layer changes the normalised stream.

    mean of |LN(x_k) − LN(x_{k−1})|,  LN without gain and bias

Xie et al. 2023, figure 2 b. For independent Gaussian branches the difference is N(0, ω²), so that the mean is √(2/π)·ω:

    pre-LN    ω_k² = 2 − 2√(V_{k−1} ÷ V_k),  V_k = Var[x_k]          (Theorem 3.3; 2/(√k(√(k−1)+√k)) when x₀ = 0)
    post-LN   ω²   = 2 − 2 ÷ √(1 + σ²),      σ² = Var[f] ÷ Var[x]    (Theorem 3.6)

Here sub-layer k turns x_{k−1} into x_k; the paper calls the same two x_k and x_{k+1}. Facts of each stack: `power`, of
k with which the change falls, from the fourth sub-layer on; `last/first third`, the change in the last third of the
sub-layers ÷ that in the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import pi, sqrt

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import POWER, Evidence, Measure, require
from lamina.diagnosis.measures.reading import branch_of, placement_of, positions, stacks_of, stream, variance
from lamina.diagnosis.measures.statistics import fit_power, ratio
from lamina.diagnosis.recording.records import StackRecord

MEAN_OF_ABSOLUTE = sqrt(2 / pi)
"""E|z| for z ~ N(0, 1)."""

LAST_TO_FIRST_THIRD = FactName("last/first third")


class HiddenChange(Measure):
    title = "Change of the hidden state by sub-layer"
    formula = "mean |LN(x_k) − LN(x_{k−1})|"
    source = "Xie et al. 2023, figure 2 b, Theorems 3.3 and 3.6"
    look_for = (
        "A line that falls to the right shows representation collapse: the upper layers hardly change the hidden "
        "state. Dashed: the theorems, from the measured variances."
    )
    axes = Axes(x="sub-layer", y="mean absolute change")
    needs = ("record",)
    position = 60

    def take(self, evidence: Evidence) -> Measurement:
        stacks = stacks_of(require(evidence.record))
        measured = [_series(stack, changes(stack)) for stack in stacks]
        predicted = [
            _series(stack, [MEAN_OF_ABSOLUTE * omega for omega in omegas]).model_copy(update={"role": "predicted"})
            for stack in stacks
            if (omegas := predicted_omegas(stack))
        ]
        return self.measurement([*measured, *predicted])

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = []
        for each in measurement.measured:
            third = max(1, len(each.y) // 3)
            share = ratio(sum(each.y[-third:]), sum(each.y[:third]))
            facts.append(Fact(name=POWER, location=each.location, value=fit_power(each.x[3:], each.y[3:]).slope))
            facts.append(Fact(name=LAST_TO_FIRST_THIRD, location=each.location, value=share))
        return measurement.model_copy(update={"facts": tuple(facts)})


def changes(stack: StackRecord) -> list[float]:
    """The change of the first stream at every sub-layer."""
    states = (_normalised(positions(stack, recorded)) for recorded in stream(stack))
    return [(after - before).abs().mean().item() for before, after in pairwise(states)]


def predicted_omegas(stack: StackRecord) -> list[float]:
    """ω of every sub-layer; empty where the theorems do not apply."""
    return list(_omegas(stack))


def _omegas(stack: StackRecord) -> Iterator[float]:
    match placement_of(stack):
        case "pre":
            for before, after in pairwise(variance(stack, recorded) for recorded in stream(stack)):
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


def _series(stack: StackRecord, y: list[float]) -> Series:
    return Series(location=Location(stack=stack.name), x=tuple(range(1, len(y) + 1)), y=tuple(y))
