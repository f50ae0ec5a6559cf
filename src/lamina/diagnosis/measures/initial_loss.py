"""The loss over classes against that of a guess.

    −ln p(target), beside ln V for V classes, and the entropy Σ −q ln q of the targets' own distribution

A newly initialised model should guess: Karpathy 2019, "A Recipe for Training Neural Networks", step 2. With logits of
standard deviation σ the loss is about ln V + σ²/2, so that a loss far above ln V shows an initialisation that is too
large. The targets' entropy is that of this batch; with few targets it is far too small.

Facts: `loss`, `ln V`, `unigram`, `σ of the logits`, `targets`; `are probabilities`, 1 where the scores given to the
loss are probabilities, so that the softmax is applied twice; `initialised`, 1 if every norm has one gain for all
channels, as before training.
"""

from __future__ import annotations

from math import log

from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.losses import LossRecord
from lamina.diagnosis.recording.records import Record

LOSS, GUESS, UNIGRAM = FactName("loss"), FactName("ln V"), FactName("unigram")
DEVIATION, TARGETS = FactName("σ of the logits"), FactName("targets")
ARE_PROBABILITIES, INITIALISED = FactName("are probabilities"), FactName("initialised")


class InitialLoss(Measure):
    title = "The loss against a guess"
    formula = "−ln p(target), ln V, Σ −q ln q of the targets"
    source = "Karpathy 2019, step 2"
    look_for = (
        "Before training the loss should be about ln V. Far above it the logits are too large; far below it before "
        "training the targets are given away by the input."
    )
    axes = Axes(x="", y="nats")
    needs = ("record",)
    position = 2

    def take(self, evidence: Evidence) -> Measurement:
        loss = main_loss(require(evidence.record))
        values = {
            LOSS: loss.nll,
            GUESS: log(loss.classes),
            UNIGRAM: loss.unigram,
            DEVIATION: loss.deviation,
            TARGETS: float(loss.counted.sum()),
            ARE_PROBABILITIES: float(loss.are_probabilities),
            INITIALISED: float(is_initialised(require(evidence.record))),
        }
        location = Location(module=loss.module or None)
        return self.measurement(facts=[Fact(name=name, location=location, value=each) for name, each in values.items()])


def is_initialised(record: Record) -> bool:
    """Whether the gains of every norm are all the same, which training does not leave so."""
    gains = [getattr(norm.module, "weight", None) for stack in record.stacks for norm in stack.norms]
    return all(bool((each == each.flatten()[0]).all()) for each in gains if isinstance(each, Tensor))


def main_loss(record: Record) -> LossRecord:
    """The loss with the most targets; of several alike, the first."""
    found = [each for each in record.calls.losses if each.classes > 1]
    if not found:
        raise NotMeasurable("the loss is no cross-entropy over classes")
    return max(found, key=lambda each: int(each.counted.sum()))
