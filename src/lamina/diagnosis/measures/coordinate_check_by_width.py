"""The size of the hidden state after a few steps of training, against width.

    mean |h| after the last layer, after 0, 1, 2 and 3 steps of Adam, at several widths

Yang et al. 2022 (μP), section D.1, "coordinate check". With the usual initialisation and one learning rate for all
matrices the lines of later steps rise with width, since an update of Adam adds to a coordinate in proportion to the
number of inputs: the best learning rate then falls as width grows. All models are trained on one batch, at the planned
learning rate or 0.001.

Facts of each number of steps: `power` p, of mean |h| ~ (width)ᵖ.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.coordinate_check import compare_sizes, powers


class CoordinateCheckByWidth(Measure):
    title = "Coordinate check against width"
    formula = "mean |h| after 0 to 3 steps"
    source = "Yang et al. 2022, section D.1"
    look_for = (
        "Lines of later steps that rise with width while the first is flat: a learning rate found at a small width is "
        "too high for a larger one."
    )
    axes = Axes(x="width", y="mean |h| after the last layer", log_x=True, log_y=True)
    needs = ("widths",)
    quick = False
    position = 221

    def take(self, evidence: Evidence) -> Measurement:
        of_width, widths = require(evidence.of_width), sorted(set(evidence.widths))
        if len(widths) < 2:
            raise NotMeasurable("it needs two widths that the number of heads divides")
        series = compare_sizes(of_width, widths, evidence.passes[0], evidence.learning_rate)
        return self.measurement(series, facts=powers(series))
