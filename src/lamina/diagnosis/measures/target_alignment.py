"""Which token of its own input a target is: the next one, the same one, or none.

    share of targets y_t with y_t = x_{t+k},  k = −1 … 3,  x the tokens that an embedding read

Not in the papers. A language model is trained to predict the next token, k = 1. Targets at k = 0 are given away by the
input; at k = 2 they were shifted twice, by the data and by the model. In masked language models no k matches, since
tokens to predict are hidden, and most targets are ignored.

Facts: `ignored`, the share of targets that do not count; `padding`, the share of counted targets that are the padding
token of the embedding; `same classes`, 1 if the classes are the tokens of an embedding; `repeats`, 1 if tokens repeat
as those of a language do, and not as those of random sequences.
"""

from __future__ import annotations

from math import log

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.initial_loss import main_loss
from lamina.diagnosis.recording.losses import entropy, matching_tokens

OFFSETS = (-1, 0, 1, 2, 3)
IGNORED, PADDING, SAME_CLASSES = FactName("ignored"), FactName("padding"), FactName("same classes")
REPEATS = FactName("repeats")


LANGUAGE = 0.85
"""The entropy of tokens relative to that of as many different ones, below which they are no random sequence."""


class TargetAlignment(Measure):
    title = "Targets against the tokens of the input"
    formula = "share of targets y_t = x_{t+k}"
    source = "not in the papers"
    look_for = "A language model has 1 at k = 1 and little elsewhere: 1 at k = 0 or k = 2 means shifted labels."
    axes = Axes(x="k", y="share of targets")
    needs = ("record",)
    position = 3

    def take(self, evidence: Evidence) -> Measurement:
        record = require(evidence.record)
        loss, tokens = main_loss(record), record.calls.tokens
        shares = {offset: matching_tokens(loss, tokens, offset) for offset in OFFSETS}
        known = {offset: share for offset, share in shares.items() if share is not None}
        if not known:
            raise NotMeasurable("there is not one target for every token that an embedding read")
        counted = loss.targets[loss.counted]
        padding = {each.padding for each in tokens if each.rows >= loss.classes and each.padding is not None}
        facts = {
            IGNORED: 1 - loss.counted.double().mean().item(),
            PADDING: max((float((counted == each).double().mean()) for each in padding), default=0.0),
            SAME_CLASSES: float(any(each.rows == loss.classes for each in tokens)),
            REPEATS: float(entropy(counted) < LANGUAGE * log(min(loss.classes, max(2, len(counted))))),
        }
        series = Series(x=tuple(known), y=tuple(known.values()))
        return self.measurement([series], facts=[Fact(name=name, value=value) for name, value in facts.items()])
