"""The share of units of the feed-forward sub-layers that are inactive at every position of the batch.

    |{j : |a(x_j)| ≤ 10⁻³·|x_j| at every position}| ÷ number of units,  a the activation function

After Lu et al. 2019, "Dying ReLU", Definition 1, with a bound that covers GELU and SiLU, which are never exactly zero.
A dead unit passes no gradient to the matrix below it. Fact of each layer: `dead`, at the module whose output is the
input of the activation.
"""

from __future__ import annotations

from collections import defaultdict

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.calls import ActivationRecord

DEAD = FactName("dead")
POSITIONS = 16
"""The number of positions below which nothing is said: a healthy unit is inactive at half of them."""


class DeadUnits(Measure):
    title = "Dead units"
    formula = "share of units that are inactive at every position"
    source = "after Lu et al. 2019, Definition 1"
    look_for = "Healthy layers are at 0. A layer near 1 passes nothing on and gets no gradient."
    axes = Axes(x="layer", y="share of dead units")
    needs = ("record",)
    position = 48

    def take(self, evidence: Evidence) -> Measurement:
        found = [each for each in require(evidence.record).calls.activations if _counts(each)]
        if not found:
            raise NotMeasurable(f"no activation over at least {POSITIONS} positions was seen inside the layers")
        modules: dict[Location, list[float]] = defaultdict(list)
        for each in found:
            modules[each.location].append(each.dead.double().mean().item())
        shares = {location: min(calls) for location, calls in modules.items()}
        stacks: dict[str | None, dict[int, float]] = defaultdict(dict)
        for location, share in shares.items():
            assert location.layer is not None
            stacks[location.stack][location.layer] = max(share, stacks[location.stack].get(location.layer, 0.0))
        series = [
            Series(location=Location(stack=stack), x=tuple(layers), y=tuple(layers.values()))
            for stack, layers in stacks.items()
        ]
        facts = [Fact(name=DEAD, location=location, value=share) for location, share in shares.items()]
        return self.measurement(series, facts=facts)


def _counts(each: ActivationRecord) -> bool:
    return each.location.layer is not None and each.positions >= POSITIONS
