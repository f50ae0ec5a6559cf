from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_gradient_norm import (
    LEARNING_RATE_JUMP,
    NORM,
    SPIKE,
    VARIATION,
    WATCHED,
    WatchedGradientNorm,
)
from lamina.diagnosis.watching.observation import StepTrace
from lamina.diagnosis.watching.spikes import LearningRateJump, Spike, SpikeParameter
from support.observations import matrix, observation


def test_norms_spikes_and_jumps() -> None:
    layer = Location(stack="h", layer=2)
    weight = SpikeParameter(
        location=layer.model_copy(update={"module": "h.1.fc.weight"}), share=0.9, gradient_norm=8.0, usual_norm=1.0
    )
    spike = Spike(
        step=2,
        quantity="gradient norm",
        value=9.0,
        mean=1.0,
        deviation=0.5,
        location=layer,
        parameters=(weight,),
        observed_at=2,
    )
    trace = StepTrace(steps=(1, 2), losses=(None, None), gradient_norms=(1.0, 9.0), learning_rates=(0.1, 0.4))
    jump = LearningRateJump(step=2, before=0.1, after=0.4)
    history = [observation(2, trace=trace, spikes=(spike,), learning_rate_jumps=(jump,))]
    found = WatchedGradientNorm().take(Evidence(history=history))
    norms, points = found.measured
    assert (norms.x, norms.y, norms.points) == ((1, 2), (1.0, 9.0), False)
    assert (points.x, points.y, points.points) == ((2.0,), (9.0,), True)
    (fact,) = found.find_facts(SPIKE)
    assert (fact.value, fact.location.layer, fact.location.module) == (16.0, 2, "h.1.fc.weight")
    assert fact.stage is not None
    assert fact.stage.step == 2
    assert found.find_facts(LEARNING_RATE_JUMP)[0].value == pytest.approx(4)


def test_the_norm_over_all_matrices_after_clipping() -> None:
    history = [observation(5, matrix(1, 3.0), matrix(2, 4.0)), observation(10), observation(15, matrix(1, 5.0))]
    found = WatchedGradientNorm().take(Evidence(history=history))
    (norms,) = found.measured
    assert (norms.x, norms.y, norms.quantity) == ((5.0, 15.0), (5.0, 5.0), "after clipping, of matrices")
    values = {each.name: each.value for each in found.facts}
    assert (values[NORM], values[VARIATION], values[WATCHED]) == (5.0, 0.0, 2.0)


def test_without_steps() -> None:
    with pytest.raises(NotMeasurable, match="no step was followed"):
        WatchedGradientNorm().take(Evidence(history=[observation(2)]))
