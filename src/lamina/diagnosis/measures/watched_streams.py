"""The size of the residual stream over training.

    √(mean x²) after the last layer, and in the map after every layer; the largest absolute value beside it

Xiong et al. 2020, Lemma 2, followed through training.
"""

from __future__ import annotations

from math import nan

from lamina.diagnosis.measurement import Axes, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.watched_series import layer_map, over_steps

LARGEST = "largest"
"""The quantity of the lines that show the largest absolute value."""


class WatchedStreams(Measure):
    title = "The stream over training"
    formula = "√(mean x²) after the last layer, and in the map after every layer"
    source = "Xiong et al. 2020, Lemma 2, followed through training"
    look_for = (
        "In a stream that keeps growing the upper layers count for less and less, and its values exceed half precision "
        "at 65,504."
    )
    axes = Axes(x="step", y="root mean square", log_y=True)
    needs = ("history",)
    position = 350

    def take(self, evidence: Evidence) -> Measurement:
        history = [each for each in require(evidence.history) if each.streams]  # a spike is observed without streams
        observed = [{stream.stack: stream for stream in each.streams} for each in history]
        stacks = list(dict.fromkeys(stack for each in observed for stack in each))
        if not stacks:
            raise NotMeasurable("the output of no layer was observed, as when layers are compiled")
        series, grids = [], []
        for stack in stacks:
            streams = [each.get(stack) for each in observed]
            depth = max(len(each.root_mean_squares) for each in streams if each is not None)
            sizes = [(nan,) * depth if each is None else each.root_mean_squares for each in streams]
            largest = [nan if each is None else each.largest for each in streams]
            location = Location(stack=stack)
            series.append(over_steps(location, history, [each[-1] for each in sizes], "root mean square"))
            series.append(over_steps(location, history, largest, LARGEST))
            grids.append(layer_map(stack, history, list(zip(*sizes, strict=True))))
        return self.measurement(series, grids=grids)
