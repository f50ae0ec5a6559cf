"""The norm of the whole gradient over training, and its spikes.

    ‖∂L/∂θ‖ over all parameters, before clipping; a spike is a norm above mean + 6σ of the 128 before it

Facts: `spikes of the gradient norm`; for each spike, of the loss or the norm, `spike`: its distance from the mean in
standard deviations, with the layer and the parameter that most of it comes from, at the stage of its step;
`learning-rate jump`: the learning rate relative to that of the step before, at the stage of its step.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series, Stage
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.watched_series import spike_points, trace_series

SPIKES_OF_THE_GRADIENT = FactName("spikes of the gradient norm")
SPIKE = FactName("spike")
LEARNING_RATE_JUMP = FactName("learning-rate jump")


class WatchedGradientNorm(Measure):
    title = "Gradient norm over training"
    formula = "‖∂L/∂θ‖ over all parameters, before clipping"
    source = "as trainers show it; the limit of a spike is a convention"
    look_for = (
        "A line without trend after the warm-up. A norm that rises for hundreds of steps often precedes a divergence. "
        "A point is a spike: a single step far above the ones before it, caused by its batch or by too large an update."
    )
    axes = Axes(x="step", y="gradient norm", log_y=True)
    needs = ("history",)
    position = 295

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        steps = trace_series(history)
        if not steps:
            raise NotMeasurable("no step was followed")
        norms = tuple(norm for each in history for norm in each.trace.gradient_norms)
        points = spike_points(history, "gradient norm")
        facts = [Fact(name=SPIKES_OF_THE_GRADIENT, value=float(sum(len(each.x) for each in points)))]
        for spike in (spike for each in history for spike in each.spikes):
            module = spike.parameters[0].location.module if spike.parameters else None
            location = spike.location.model_copy(update={"module": module})
            facts.append(
                Fact(
                    name=SPIKE,
                    location=location,
                    quantity=spike.quantity,
                    stage=Stage(name="step", step=spike.step),
                    value=(spike.value - spike.mean) / spike.deviation,
                )
            )
        for jump in (jump for each in history for jump in each.learning_rate_jumps):
            stage = Stage(name="step", step=jump.step)
            facts.append(Fact(name=LEARNING_RATE_JUMP, stage=stage, value=jump.after / jump.before))
        return self.measurement([Series(location=Location(), x=steps, y=norms), *points], facts=facts)
