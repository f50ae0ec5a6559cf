"""The settings of the optimiser, for every group of parameters.

    learning rate η, weight decay λ, ε, β₁ and β₂

Kingma and Ba 2015. The learning rate is the highest of the schedule, if the optimiser knows it. Facts: one for each
setting and group, the group's number from 1 as the quantity.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable

NAMES = {name: FactName(name) for name in ("lr", "weight_decay", "eps", "beta1", "beta2")}


class OptimiserSettings(Measure):
    title = "Settings of the optimiser"
    formula = "η, λ, ε, β₁, β₂ of every group"
    source = "Kingma and Ba 2015"
    look_for = "Usual values: β₁ 0.9, β₂ 0.95 to 0.999, ε 1e-8 to 1e-6, λ up to 0.1."
    axes = Axes(x="", y="")
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 105

    def take(self, evidence: Evidence) -> Measurement:
        if evidence.optimiser is None:
            raise NotMeasurable("no optimiser was given: lamina.diagnose(model, batch, optimiser=…)")
        facts = [
            Fact(name=NAMES[name], quantity=str(number), value=value)
            for name, values in evidence.planned.settings.items()
            for number, value in enumerate(values, 1)
        ]
        return self.measurement(facts=facts)
