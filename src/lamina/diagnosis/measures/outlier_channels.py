"""Channels of the residual stream that are far larger than the others.

    kurtosis = mean_c r_c⁴ ÷ (mean_c r_c²)²,  r_c = √(mean over positions of x_c²);  and max r ÷ median r

He et al. 2024, "Understanding and Minimising Outlier Features", equation 1 (kurtosis of the channels' root mean
squares): 1 if all channels have the same size, the width if there is one channel only. Outlier channels make low
precision and quantisation fail. Fact of each stack: `largest/median`, the largest over its layers.
"""

from __future__ import annotations

from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.reading import layer_outputs, positions, stacks_of
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.recording.records import StackRecord

KURTOSIS, LARGEST_TO_MEDIAN = "kurtosis", "largest/median"
"""The quantities of the lines."""
LARGEST = FactName("largest/median")


class OutlierChannels(Measure):
    title = "Outlier channels"
    formula = "kurtosis of the channels' root mean squares, and largest ÷ median"
    source = "He et al. 2024 (outlier features), equation 1"
    look_for = (
        "Both are near 1 where all channels have a similar size. A channel a hundred times the median dominates every "
        "norm and every product, and does not fit into low precision."
    )
    axes = Axes(x="layer", y="kurtosis, or largest ÷ median", log_y=True)
    needs = ("record",)
    position = 82

    def take(self, evidence: Evidence) -> Measurement:
        series = [each for stack in stacks_of(require(evidence.record)) for each in _lines(stack)]
        return self.measurement(series)

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = [
            Fact(name=LARGEST, location=each.location, value=max(each.y))
            for each in measurement.select(quantity=LARGEST_TO_MEDIAN)
        ]
        return measurement.model_copy(update={"facts": tuple(facts)})


def _lines(stack: StackRecord) -> list[Series]:
    sizes = [positions(stack, each).square().mean(0).sqrt() for each in layer_outputs(stack)]
    values = {KURTOSIS: map(kurtosis, sizes), LARGEST_TO_MEDIAN: map(largest_to_median, sizes)}
    x = tuple(range(1, len(sizes) + 1))
    return [
        Series(location=Location(stack=stack.name), quantity=quantity, x=x, y=tuple(y))
        for quantity, y in values.items()
    ]


def kurtosis(sizes: Tensor) -> float:
    return ratio(sizes.pow(4).mean().item(), sizes.square().mean().square().item())


def largest_to_median(sizes: Tensor) -> float:
    return ratio(sizes.max().item(), sizes.median().item())
