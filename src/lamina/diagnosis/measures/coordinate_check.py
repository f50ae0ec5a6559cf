"""The size of the hidden state after a few steps of training, against depth.

    mean |h| after the last layer, after 0, 1, 2 and 3 steps of Adam, at several numbers of layers

Yang et al. 2022 (μP), section D.1, "coordinate check", which they make against width (`coordinate-check-by-width`): in
a parametrisation that keeps learning rates from small to large models the lines of all steps are flat. A size that
grows with depth after a step, but not before it, shows a learning rate that must be lowered for deeper models. All
models are trained on one batch, at the planned learning rate or 0.001.

Facts of each number of steps: `power` p, of mean |h| ~ (number of layers)ᵖ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import nan

from torch import nn
from torch.optim import Adam

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import POWER, Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.statistics import fit_power
from lamina.diagnosis.planned_update import LEARNING_RATE
from lamina.diagnosis.recording.passes import Pass, as_written, backward, recording

STEPS = (0, 1, 2, 3)
MOST_LAYERS = 16
"""Deeper models are left out: they take most of the time."""


class CoordinateCheck(Measure):
    title = "Coordinate check against depth"
    formula = "mean |h| after 0 to 3 steps"
    source = "after Yang et al. 2022, section D.1"
    look_for = "Lines of later steps that rise with depth while the first is flat: lower the learning rate with depth."
    axes = Axes(x="layers", y="mean |h| after the last layer", log_x=True, log_y=True)
    needs = ("factory",)
    quick = False
    position = 220

    def take(self, evidence: Evidence) -> Measurement:
        factory, run = require(evidence.factory), evidence.passes[0]
        depths = sorted({each for each in evidence.depths if each <= MOST_LAYERS})
        if len(depths) < 2:
            raise NotMeasurable(f"it needs two depths of at most {MOST_LAYERS} layers")
        series = compare_sizes(partial(factory, 1), depths, run, evidence.learning_rate)
        return self.measurement(series, facts=powers(series))


def compare_sizes(
    build: Callable[[int], nn.Module], sizes: Sequence[int], run: Pass, learning_rate: float | None
) -> list[Series]:
    """Mean |h| after each number of steps, against depth or width."""
    rate = learning_rate or LEARNING_RATE
    found = [sizes_in_training(build(size), run, rate) for size in sizes]
    return [
        Series(
            location=Location(stack=stack),
            quantity=f"after {step} steps",
            x=tuple(map(float, sizes)),
            y=tuple(each[step].get(stack, nan) for each in found),
        )
        for stack in found[0][0]
        for step in STEPS
    ]


def powers(series: Sequence[Series]) -> list[Fact]:
    return [
        Fact(name=POWER, location=each.location, quantity=each.quantity, value=fit_power(each.x, each.y).slope)
        for each in series
    ]


def sizes_in_training(model: nn.Module, run: Pass, learning_rate: float) -> list[dict[str, float]]:
    """Mean |h| after the last layer of every stack, after each number of steps; the model is trained."""
    optimiser = Adam([each for each in model.parameters() if each.requires_grad], lr=learning_rate)
    found = []
    for _ in STEPS:
        model.zero_grad()
        with as_written(model), recording(model) as records:
            backward(model, run)
        found.append({each.name: each.sublayers[-1].after[0].value.abs().mean().item() for each in records.stacks})
        optimiser.step()
    return found
