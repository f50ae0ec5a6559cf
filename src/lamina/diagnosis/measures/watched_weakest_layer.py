"""The gradient of the weakest layer of each stack over training.

    min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖, L the last layer of the stack

After Liu et al. 2020, figure 3. Fact: `gives the loss`, 1 at the stack from which the loss is computed: the others
may have almost no gradient in their lower layers in runs that train well.
"""

from __future__ import annotations

from math import nan

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.watched_series import over_steps, weakest_by_stack

STACK_OF_THE_LOSS = FactName("gives the loss")


class WatchedWeakestLayer(Measure):
    title = "Gradient of the weakest layer over training"
    formula = "min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖, L the last layer of the stack"
    source = "after Liu et al. 2020, figure 3"
    look_for = (
        "A line that falls and stays low: the lower layers of this stack no longer learn. In the stack from which the "
        "loss is computed this precedes a loss that stops falling."
    )
    axes = Axes(x="step", y="share of the last layer's gradient", log_y=True)
    needs = ("history",)
    position = 320

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        found = [weakest_by_stack(each) for each in history]
        judged = history[-1].output_stack
        stacks = dict.fromkeys(stack for each in found for stack in each)
        if judged is None or judged not in stacks:
            raise NotMeasurable("the stack from which the loss is computed has no two trained layers to compare")
        series = [
            over_steps(Location(stack=stack), history, [each[stack].share if stack in each else nan for each in found])
            for stack in stacks
        ]
        return self.measurement(
            series, facts=[Fact(name=STACK_OF_THE_LOSS, location=Location(stack=judged), value=1.0)]
        )
