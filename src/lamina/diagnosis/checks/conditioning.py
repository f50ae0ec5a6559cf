"""Does Adam's update depend on tiny changes of the gradient?

κ grows with the square root of the number of weights; it is compared as in the paper, for 1,024 weights. Where
gradients vanish it is α·√1024 ÷ ε, and only a small learning rate α, as in a warm-up, makes it harmless (Xie et al.
2023, Theorem 3.2).

The paper has ε = 1e-6. With a smaller ε, such as torch's 1e-8, κ grows as 1 ÷ √v̂ also where gradients are far above ε
and training is healthy. What matters is how near κ comes to its value without gradient, κ ÷ (α·√n ÷ ε), which is about
the mean of ε ÷ (√v̂ + ε). So κ is judged as this share of the value that it has without gradient at ε = 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isfinite, isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.adam_conditioning import EPSILON, LEARNING_RATE, WITHOUT_GRADIENT
from lamina.diagnosis.results import Finding, Setting
from lamina.formatting import short
from lamina.options import Options

WEIGHTS = 1024
PAPER_EPSILON = 1e-6


class Conditioning(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 300.0
        """κ of Adam's update for 1,024 weights, from which on it is a warning: its value after 20 steps of vanishing
        gradients in Xie et al. 2023, figure 3."""
        failure: PositiveFloat = 3000.0
        """κ for 1,024 weights, from which on it is a failure: about its value without any gradient (3,200, Theorem
        3.2)."""

    reads = ("adam-conditioning",)
    position = 60

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        """Check the worst layer of each stack; n, the number of its weights, follows from the prediction α·√n ÷ ε."""
        measurement = evidence.get("adam-conditioning")
        learning_rate = measurement.fact(LEARNING_RATE) if measurement else None
        epsilon = measurement.fact(EPSILON) if measurement else None
        if measurement is None or learning_rate is None or not epsilon:
            return
        without_gradient = WEIGHTS**0.5 * learning_rate / max(epsilon, PAPER_EPSILON)
        for predicted in measurement.select(role="predicted", quantity=WITHOUT_GRADIENT):
            stack = predicted.location.stack
            for measured in measurement.select(stack=stack):
                values = zip(measured.x, measured.y, predicted.y, strict=True)
                ratios = {int(layer): kappa / most for layer, kappa, most in values if most and not isnan(kappa)}
                if ratios:
                    worst = max(ratios, key=lambda layer: ratios[layer])
                    location = Location(stack=stack, layer=worst)
                    yield self._judge_layer(
                        location, ratios[worst] * without_gradient, learning_rate, evidence, thresholds
                    )

    def _judge_layer(
        self, location: Location, kappa: float, learning_rate: float, evidence: CheckEvidence, thresholds: Thresholds
    ) -> Finding:
        severity = grade(kappa, thresholds.warning, thresholds.failure)
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        sentence = (
            f"Adam's update in {location} has κ = {short(kappa)} for 1,024 weights and ε of at least 10⁻⁶ at the "
            f"learning rate {short(learning_rate)}"
        )
        if severity == "fine":
            sentence += f", below the threshold of {short(threshold)}: updates follow the gradient"
        else:
            sentence += (
                f", above the threshold of {short(threshold)}: noise in a vanishing gradient becomes an update of full "
                "size"
            )
        return self.finding(
            severity,
            sentence,
            location=location,
            value=kappa,
            threshold=threshold,
            remedies=(*_warm_up(kappa), evidence.schemes_that_avoid("vanishing")),
        )


def _warm_up(kappa: float) -> tuple[Setting, ...]:
    """In a warm-up of κ steps the learning rate of the first step is 1/κ of the highest, which brings κ to 1."""
    return (Setting(key="schedule.warmup_steps", relation=">", value=ceil(kappa)),) if isfinite(kappa) else ()
