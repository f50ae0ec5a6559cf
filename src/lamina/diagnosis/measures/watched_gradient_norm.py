"""The norm of the whole gradient over training, before and after clipping, and its spikes.

    ‖∂L/∂θ‖ over all parameters, before clipping, at every step; a spike is a norm above mean + 6σ of the 128 before it
    √Σ‖∂L/∂W‖² over all matrices, as the optimiser gets it, at watched steps

Clipping: Pascanu et al. 2013. A norm after clipping that is the same at every step was clipped at every step: the
length of the gradient then says nothing.

Facts: `norm after clipping`, the median over the watched steps; `variation`, its standard deviation ÷ its mean;
`watched steps`; `spikes of the gradient norm`; for each spike, of the loss or the norm, `spike`: its distance from the
mean in standard deviations, with the layer and the parameter that most of it comes from, at the stage of its step;
`learning-rate jump`: the learning rate relative to that of the step before, at the stage of its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, isfinite
from statistics import fmean, median, pstdev

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series, Stage
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.measures.watched_series import over_steps, spike_points, trace_series
from lamina.diagnosis.watching.observation import Observation

BEFORE, AFTER = "before clipping", "after clipping, of matrices"
"""The quantities of the two lines."""
NORM, VARIATION, WATCHED = FactName("norm after clipping"), FactName("variation"), FactName("watched steps")
SPIKES_OF_THE_GRADIENT = FactName("spikes of the gradient norm")
SPIKE = FactName("spike")
LEARNING_RATE_JUMP = FactName("learning-rate jump")


class WatchedGradientNorm(Measure):
    title = "Gradient norm over training"
    formula = "‖∂L/∂θ‖ over all parameters before clipping, and over all matrices after it"
    source = "as trainers show it, and after Pascanu et al. 2013; the limit of a spike is a convention"
    look_for = (
        "A line without trend after the warm-up. A norm that rises for hundreds of steps often precedes a divergence. "
        "A point is a spike: a step far above the ones before it, caused by its batch or by too large an update. "
        "A norm after clipping that is flat shows that every gradient is clipped."
    )
    axes = Axes(x="step", y="gradient norm", log_y=True)
    needs = ("history",)
    position = 295

    def take(self, evidence: Evidence) -> Measurement:
        history = require(evidence.history)
        steps = trace_series(history)
        clipped = [each for each in history if each.matrices]
        if not steps and not clipped:
            raise NotMeasurable("no step was followed")
        norms = tuple(norm for each in history for norm in each.trace.gradient_norms)
        points = spike_points(history, "gradient norm")
        lines = [Series(quantity=BEFORE, x=steps, y=norms)] if steps else []
        if clipped:
            lines.append(over_steps(Location(), clipped, map(norm_of_matrices, clipped), AFTER))
        facts = _facts_after_clipping(clipped)
        facts += [Fact(name=SPIKES_OF_THE_GRADIENT, value=float(sum(len(each.x) for each in points)))]
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
        return self.measurement([*lines, *points], facts=facts)


def norm_of_matrices(observation: Observation) -> float:
    return hypot(*(each.gradient_norm for each in observation.matrices))


def _facts_after_clipping(history: Sequence[Observation]) -> list[Fact]:
    finite = [norm for norm in map(norm_of_matrices, history) if isfinite(norm)]
    if not finite:
        return []
    values = {NORM: median(finite), VARIATION: ratio(pstdev(finite), fmean(finite)), WATCHED: float(len(finite))}
    return [Fact(name=name, value=value) for name, value in values.items()]
