"""Did the loss or the gradient norm spike while the model was watched in training?

A spike is a value above mean + 6σ of the last 128 values. Single spikes of the gradient norm that the loss does not
follow are usual, as gradient norms have long tails; they are reported and are no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact, Measurement
from lamina.diagnosis.measures.watched_gradient_norm import AFTER, LEARNING_RATE_JUMP, SPIKE
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import count, short
from lamina.options import Options


class Spikes(Check):
    class Thresholds(Options):
        gradient_spikes: Annotated[float, Field(gt=0, le=1)] = 0.01
        """The share of steps in which the gradient norm spikes, from which on it is a warning even if the loss does not
        spike: a distribution with a tail as long as a log-normal one of σ = 0.5 has a tenth of it."""
        observed: Annotated[int, Field(ge=1)] = 33
        """Number of followed steps below which nothing is said: the first 32 are what later ones are compared with
        (`diagnose.spikes.min_observed`)."""

    reads = ("watched-gradient-norm", "watched-loss")
    position = 12

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("watched-gradient-norm")
        if measurement is None:
            return
        steps = sum(len(each.x) for each in measurement.measured if not each.points and each.quantity != AFTER)
        losses = evidence.get("watched-loss")
        followed = "the loss and the gradient norm" if losses is not None else "the gradient norm"
        if steps < thresholds.observed:
            yield self.finding("not measured", f"only {count(steps, 'step')} were followed, too few to compare")
            return
        found = measurement.find_facts(SPIKE)
        of_loss = [each for each in found if each.quantity == "loss"]
        jumps = _jumps(measurement)
        if not found:
            yield self.finding("fine", f"{followed} had no spike in the steps up to {_last(measurement)}{jumps}")
            return
        many = len(found) >= thresholds.gradient_spikes * _last(measurement)
        yield self.finding(
            "warning" if of_loss or many else "fine",
            _sentence(found, of_loss) + jumps,
            location=(of_loss or found)[0].location,
            value=float(len(found)),
            threshold=0.0,
            remedies=(
                Setting(key="train.clip_norm", value=1.0),
                Setting(key="optimiser.betas", value=(0.9, 0.95)),
                Action(text="lower the learning rate or lengthen the warm-up, and examine the batch of the spike"),
            ),
        )


def _sentence(found: Sequence[Fact], of_loss: Sequence[Fact]) -> str:
    first = (of_loss or found)[0]
    assert first.stage is not None
    what = "loss" if of_loss else "gradient norm"
    number = len(of_loss or found)
    which = "the first" if number > 1 else "it was"
    text = f"the {what} had {count(number, 'spike')}, {which} at step {first.stage.step:,}"
    text += f", {short(first.value)} standard deviations above the mean of the steps before"
    if first.location.module is not None:
        text += f"; most of the excess gradient was in {first.location.module}"
    return text if of_loss else f"{text}; the loss did not spike"


def _jumps(measurement: Measurement) -> str:
    raised = [each for each in measurement.find_facts(LEARNING_RATE_JUMP) if each.value > 1 and each.stage is not None]
    if not raised or raised[0].stage is None:
        return ""
    return f"; the learning rate rose {short(raised[0].value)}-fold at step {raised[0].stage.step:,}"


def _last(measurement: Measurement) -> int:
    return int(max(x for each in measurement.measured for x in each.x))
