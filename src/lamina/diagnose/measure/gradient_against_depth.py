"""Gradient norm of the last feed-forward matrix against the depth of the model.

    ‖E[∂L/∂W²_L]‖_F,  W²_L the second feed-forward matrix of the last layer, E the mean over mini-batches

Xiong et al. 2020, Theorem 1 and figure 3 c, d (6-6 to 14-14): independent of the depth in post-LN, O(1/√L) in pre-LN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from lamina.diagnose.measure.averaging import average
from lamina.diagnose.measure.gradient_by_layer import expected_gradients
from lamina.diagnose.measure.line import fit_logarithms, ratio
from lamina.diagnose.measure.reading import NotMeasurable, placement_of
from lamina.diagnose.record import Record
from lamina.diagnose.results import Measure, Series
from lamina.diagnose.seeing import norm_of

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
    record: Callable[[nn.Module], Sequence[Record]],
    seeds: Sequence[int],
    depths: Sequence[int] = DEPTHS,
) -> Measure:
    """`record` takes the records of a model, one per mini-batch."""
    placement, samples = None, []
    for seed in seeds:
        norms = []
        for depth in depths:
            records = record(factory(seed, depth))
            placement = placement_of(records[0].stacks[-1])
            norms.append(last_gradient(records))
        line = Series(label="last feed-forward matrix", x=tuple(depths), y=tuple(norms))
        samples.append(MEASURE.model_copy(update={"measured": (line,)}))
    return _conclude(average(samples, spread=True), placement)


def last_gradient(records: Sequence[Record]) -> float:
    """The norm of the expected gradient of the last matrix that ends a feed-forward sub-layer."""
    gradients = expected_gradients(records)
    outer = [name for name in gradients if name.kind == "outer" and name.layer is not None]
    if not outer:
        raise NotMeasurable("no feed-forward matrix was recognised")
    return norm_of(gradients[outer[-1]]).item()


def _conclude(measure: Measure, placement: str | None) -> Measure:
    (line,) = measure.measured
    facts = {"power": fit_logarithms(line.x, line.y).slope, "largest/least": ratio(max(line.y), min(line.y))}
    theory: tuple[Series, ...] = ()
    if placement in POWERS:
        shape = np.power(line.x, POWERS[placement])
        middle = np.exp(np.mean(np.log(line.y) - np.log(shape)))
        y = tuple((middle * shape).tolist())
        theory = (Series(label=f"{placement}-LN in theory", x=line.x, y=y, dashes=True),)
    return measure.model_copy(update={"facts": facts, "theory": theory})
