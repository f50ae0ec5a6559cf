"""Gradient norm of the last feed-forward matrix against the depth of the model.

    ‖E[∂L/∂W²_L]‖_F,  W²_L the second feed-forward matrix of the last layer, E the mean over mini-batches

Xiong et al. 2020, Theorem 1 and figure 3 c, d (6-6 to 14-14): independent of the depth in post-LN, O(1/√L) in pre-LN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from lamina.diagnosis.measures.averaging import average, with_spread
from lamina.diagnosis.measures.expected_gradient import ExpectedGradient
from lamina.diagnosis.measures.line import fit_logarithms, ratio
from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import Pass
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Series
from lamina.residual.base import Placement

Factory = Callable[[int, int | None], nn.Module]
"""A new model from a seed and a number of layers; None stands for the model's own."""
DEPTHS = (6, 8, 10, 12, 14)
POWERS = {"post": 0.0, "pre": -0.5}
"""Of the depth, in Theorem 1."""
MEASURE = Measure(
    key="gradient-against-depth",
    title="Gradient of the last layer against depth",
    formula="‖E[∂L/∂W]‖ of the last feed-forward matrix",
    source="Xiong et al. 2020, Theorem 1 and figure 3 c, d",
    look_for="A level line says that deeper models take steps as large as shallow ones in their last layer, which is "
    "why post-LN wants a warm-up. Broken: Theorem 1, through the mean.",
    x_label="layers",
    y_label="gradient norm",
    log_x=True,
    log_y=True,
)


def against_depth(
    factory: Factory,
    passes: Sequence[Pass],
    seeds: Sequence[int],
    depths: Sequence[int] = DEPTHS,
    placement: Placement | None = None,
) -> Measure:
    """The mean over the seeds; `placement` tells of the last stack."""
    samples = []
    for seed in seeds:
        norms = tuple(last_gradient(factory(seed, depth), passes) for depth in depths)
        line = Series(label="last feed-forward matrix", x=tuple(depths), y=norms)
        samples.append(MEASURE.model_copy(update={"measured": (line,)}))
    return with_spread(_conclude(average(samples), placement), [_conclude(each, placement) for each in samples])


def last_gradient(model: nn.Module, passes: Sequence[Pass]) -> float:
    """The norm of the expected gradient of the last matrix that ends a feed-forward sub-layer. Nothing below it is
    differentiated."""
    outer = [each for each in find_layers(model).matrices if each.name.kind == "outer" and each.name.layer is not None]
    trained = [each for each in outer if each.parameter.requires_grad]
    if not trained:
        raise NotMeasurable(
            "no feed-forward matrix was recognised" if not outer else "the feed-forward matrices are frozen"
        )
    last = trained[-1]
    expected = ExpectedGradient()
    with torch.enable_grad():
        for run in passes:
            (gradient,) = torch.autograd.grad(run(model), last.parameter, materialize_grads=True)
            expected.add({last.name: last.of(gradient)})
    return norm_of(expected.mean()[last.name]).item()


def _conclude(measure: Measure, placement: Placement | None) -> Measure:
    (line,) = measure.measured
    facts = {"power": fit_logarithms(line.x, line.y).slope, "largest/least": ratio(max(line.y), min(line.y))}
    theory: tuple[Series, ...] = ()
    if placement is not None and placement in POWERS:
        shape = np.power(line.x, POWERS[placement])
        with np.errstate(divide="ignore"):  # a gradient may have vanished
            middle = np.exp(np.mean(np.log(line.y) - np.log(shape)))
        y = tuple((middle * shape).tolist())
        theory = (Series(label=f"{placement}-LN in theory", x=line.x, y=y, dashes=True),)
    return measure.model_copy(update={"facts": facts, "theory": theory})
