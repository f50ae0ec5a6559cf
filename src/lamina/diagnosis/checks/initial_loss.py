"""Is the loss of a newly initialised model that of a guess, and does the loss function get logits?

The loss of logits with standard deviation σ is about ln V + σ²/2. A model whose norms all have one gain, as before
training, but whose loss is far above ln V, has an output layer or an embedding that is initialised too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.initial_loss import ARE_PROBABILITIES, DEVIATION, GUESS, INITIALISED, LOSS
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options


class WrongInitialLoss(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 1.0
        """The loss above ln V, in nats, from which on it is a warning. Stock models have up to 0.5, where logits have a
        standard deviation of 1."""
        failure: PositiveFloat = 5.0
        """The loss above ln V from which on training begins with a long descent, if it begins at all."""

    reads = ("initial-loss",)
    position = 94

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("initial-loss")
        values = {each.name: each.value for each in measurement.facts} if measurement else {}
        if not values:
            return
        location = measurement.facts[0].location if measurement else Location()
        if values[ARE_PROBABILITIES] == 1:
            yield self._probabilities(location)
            return
        excess = values[LOSS] - values[GUESS]
        if not isfinite(excess):
            yield self.finding("not measured", "the loss is not finite", location=location)
        elif values[INITIALISED] == 1:
            yield self._judge_excess(excess, values[LOSS], values[GUESS], values[DEVIATION], location, thresholds)
        else:
            yield self.finding("not measured", "the model has been trained: its norms have learnt their gains")

    def _judge_excess(
        self, excess: float, loss: float, guess: float, deviation: float, location: Location, thresholds: Thresholds
    ) -> Finding:
        severity = grade(excess, thresholds.warning, thresholds.failure)
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        sentence = f"the loss before training is {short(loss)}, that of a guess, ln V, {short(guess)}"
        if severity != "fine":
            sentence += (
                f": the difference is above the threshold of {short(threshold)}, because the logits have a standard "
                f"deviation of {short(deviation)}: the output layer or the embedding is initialised too large, or its "
                "input is not normalised"
            )
        return self.finding(
            severity,
            sentence,
            location=location,
            value=excess,
            threshold=threshold,
            remedies=(
                Action(text="initialise the output layer with a standard deviation of at most 1 ÷ √width"),
                Action(text="normalise the stream before the output layer"),
            ),
        )

    def _probabilities(self, location: Location) -> Finding:
        return self.finding(
            "failure",
            "the scores that the cross-entropy gets are probabilities already: the softmax is applied twice, and its "
            "gradient is tiny",
            location=location,
            value=1.0,
            threshold=0.0,
            remedies=(Action(text="give the loss the logits: remove the softmax before it"),),
        )
