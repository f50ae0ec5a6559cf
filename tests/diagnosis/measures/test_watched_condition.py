from __future__ import annotations

import math

import pytest

from lamina.diagnosis.measurement import Fact
from lamina.diagnosis.measures.adam_conditioning import AdamConditioning
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_condition import WatchedCondition
from support.observations import observation
from support.recorded import line


def test_the_condition() -> None:
    conditioning = AdamConditioning().measurement(facts=[Fact(name="κ", value=7.0)])
    history = [observation(1, no_conditioning="not yet"), observation(2, conditioning=conditioning)]
    found = WatchedCondition().take(Evidence(history=history))
    assert math.isnan(line(found)[0])
    assert line(found)[1] == 7.0
    assert AdamConditioning().take(Evidence(history=history)) == conditioning
    for measure in (WatchedCondition(), AdamConditioning()):
        with pytest.raises(NotMeasurable, match="not yet"):
            measure.take(Evidence(history=history[:1]))
