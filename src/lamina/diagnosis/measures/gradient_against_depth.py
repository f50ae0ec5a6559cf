"""Gradient norm of the last feed-forward matrix against the depth of the model.

    ‖E[∂L/∂W²_L]‖_F,  W²_L the second feed-forward matrix of the last layer, E the mean over mini-batches

Xiong et al. 2020, Theorem 1 and figure 3 c, d (6-6 to 14-14): independent of the depth in post-LN, O(1/√L) in pre-LN.
Facts: `power`, of the depth with which the norm changes; `largest/least`, the ratio of the extreme norms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import LARGEST_TO_LEAST, POWER, Evidence, Factory, Measure, NotMeasurable, require
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient
from lamina.diagnosis.measures.statistics import average, fit_power, ratio, with_spread
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import Pass
from lamina.diagnosis.recording.taps import norm_of
from lamina.residual.base import Placement

DEPTHS = (6, 8, 10, 12, 14)
SEEDS, BATCHES = (1, 2), 2  # few, because the power of the depth hardly varies
POWERS = {"post": 0.0, "pre": -0.5}
"""The exponent of the depth in Theorem 1."""
LOCATION = Location(matrix="outer")


class GradientAgainstDepth(Measure):
    title = "Gradient of the last layer against depth"
    formula = "‖E[∂L/∂W]‖ of the last feed-forward matrix"
    source = "Xiong et al. 2020, Theorem 1 and figure 3 c, d"
    look_for = (
        "A level line shows that the last layer of a deep model takes steps as large as that of a shallow one, which "
        "is why post-LN needs a warm-up. Dashed: Theorem 1, through the mean."
    )
    axes = Axes(x="layers", y="gradient norm", log_x=True, log_y=True)
    needs = ("factory",)
    quick = False
    position = 200

    def take(self, evidence: Evidence) -> Measurement:
        placements = list(require(evidence.structure).placements.values())
        return self.against_depth(require(evidence.factory), evidence.passes[:BATCHES], placement=placements[-1])

    def against_depth(
        self,
        factory: Factory,
        passes: Sequence[Pass],
        seeds: Sequence[int] = SEEDS,
        depths: Sequence[int] = DEPTHS,
        placement: Placement | None = None,
    ) -> Measurement:
        """The mean over seeds; `placement` is that of the last stack."""
        samples = []
        for seed in seeds:
            norms = tuple(last_gradient(factory(seed, depth), passes) for depth in depths)
            samples.append(self.measurement([Series(location=LOCATION, x=tuple(depths), y=norms)]))
        return with_spread(_concluded(average(samples), placement), [_concluded(each, placement) for each in samples])


def last_gradient(model: nn.Module, passes: Sequence[Pass]) -> float:
    """The norm of the expected gradient of the last matrix that ends a feed-forward sub-layer. Only that matrix is
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


def _concluded(measurement: Measurement, placement: Placement | None) -> Measurement:
    (line,) = measurement.measured
    facts = (
        Fact(name=POWER, value=fit_power(line.x, line.y).slope),
        Fact(name=LARGEST_TO_LEAST, value=ratio(max(line.y), min(line.y))),
    )
    predicted: tuple[Series, ...] = ()
    if placement is not None and placement in POWERS:
        shape = np.power(line.x, POWERS[placement])
        with np.errstate(divide="ignore"):  # a gradient may be zero
            middle = np.exp(np.mean(np.log(line.y) - np.log(shape)))
        y = tuple((middle * shape).tolist())
        predicted = (Series(location=LOCATION, quantity=f"{placement}-LN", role="predicted", x=line.x, y=y),)
    return measurement.model_copy(update={"facts": facts, "series": (line, *predicted)})
