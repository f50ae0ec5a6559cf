"""The smallest multiple of the next update at which the loss rises.

    c* = min {c : L(W + c·ΔW) > L(W)},  and the critical learning rate η* = c*·η

Kalra et al. 2026, "critical sharpness" 2 ÷ η*: the learning rate at which the loss rises along the update is about
2 ÷ the curvature along it, at the cost of a few forward passes. It holds for any optimiser, since ΔW is its own update.
c is searched by factors of four from 1, then between the last two; the loss is that of the batch ΔW comes from.

Facts: `critical multiple` c*, 0 if the loss rises at every multiple, infinite if at none; `critical learning rate`;
`learning rate`, the planned one; `assumed`, 1 if none was given, so that c* is relative to 0.001.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import torch

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.passes import as_written, loss_again, state_restored

FACTOR = 4.0
STEPS = 5
"""The largest number of factors up or down: multiples from 1/1024 to 1024."""
NOISE = 1e-6
"""A rise of the loss by less than this share is rounding."""
MULTIPLE, CRITICAL = FactName("critical multiple"), FactName("critical learning rate")
LEARNING_RATE, ASSUMED = FactName("learning rate"), FactName("assumed")


class CriticalLearningRate(Measure):
    title = "The loss along the next update"
    formula = "c* = min {c : L(W + c·ΔW) > L(W)}"
    source = "after Kalra et al. 2026 (critical sharpness)"
    look_for = (
        "The loss falls along the update and rises again. Where it rises at the planned learning rate already, the "
        "first steps of training overshoot."
    )
    axes = Axes(x="learning rate", y="loss", log_x=True)
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 101

    def take(self, evidence: Evidence) -> Measurement:
        planned, model, run = evidence.planned, require(evidence.model), evidence.passes[0]
        if not any(bool(change.any()) for change in planned.changes.values()):
            raise NotMeasurable("the planned update is zero")
        with as_written(model), state_restored(model), torch.no_grad(), planned.applied() as move:

            def loss(multiple: float) -> float:
                move(multiple)
                return loss_again(model, run).item()

            losses = search(loss)
        if not isfinite(losses[0.0]):
            raise NotMeasurable("the loss is not finite")
        multiple = critical_multiple(losses)
        x = tuple(sorted(each for each in losses if each))
        facts = {
            MULTIPLE: multiple,
            CRITICAL: multiple * planned.learning_rate,
            LEARNING_RATE: planned.learning_rate,
            ASSUMED: float(planned.assumed and evidence.learning_rate is None),
        }
        line = Series(x=tuple(each * planned.learning_rate for each in x), y=tuple(losses[each] for each in x))
        return self.measurement([line], facts=[Fact(name=name, value=value) for name, value in facts.items()])


def search(loss: Callable[[float], float]) -> dict[float, float]:
    """The losses at 0 and at multiples around the smallest one at which the loss rises."""
    losses = {0.0: loss(0.0), 1.0: loss(1.0)}
    up = not rises(losses, 1.0)
    edge = 1.0
    for _ in range(STEPS):
        edge = edge * FACTOR if up else edge / FACTOR
        losses[edge] = loss(edge)
        if rises(losses, edge) == up:
            break
    between = edge / FACTOR**0.5 if up else edge * FACTOR**0.5
    losses[between] = loss(between)
    return losses


def rises(losses: dict[float, float], multiple: float) -> bool:
    start, value = losses[0.0], losses[multiple]
    return not value <= start + NOISE * abs(start)


def critical_multiple(losses: dict[float, float]) -> float:
    """The smallest multiple at which the loss rises; 0 where it rises at all, infinite where at none."""
    rising = [each for each in sorted(losses) if each and rises(losses, each)]
    falling = [each for each in losses if each and not rises(losses, each)]
    if not falling:
        return 0.0
    return min((each for each in rising if each > min(falling)), default=inf)
