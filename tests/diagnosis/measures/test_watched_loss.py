from __future__ import annotations

import math

import pytest

from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_loss import SPIKES_OF_THE_LOSS, WatchedLoss
from lamina.diagnosis.watching.observation import StepTrace
from lamina.diagnosis.watching.spikes import Spike
from support.observations import observation


def trace(*losses: float | None, first: int = 1) -> StepTrace:
    steps = tuple(range(first, first + len(losses)))
    norms = tuple(2.0 * step for step in steps)
    return StepTrace(steps=steps, losses=losses, gradient_norms=norms, learning_rates=(0.1,) * len(steps))


def test_the_losses_of_all_steps_and_their_spikes() -> None:
    spike = Spike(step=4, quantity="loss", value=9.0, mean=1.0, deviation=0.5, observed_at=4)
    other = spike.model_copy(update={"quantity": "gradient norm"})
    history = [
        observation(2, trace=trace(3.0, None)),
        observation(4, trace=trace(2.0, 9.0, first=3), spikes=(spike, other)),
    ]
    found = WatchedLoss().take(Evidence(history=history))
    losses, points = found.measured
    assert losses.x == (1, 2, 3, 4)
    assert (losses.y[0], losses.y[2], losses.y[3]) == (3.0, 2.0, 9.0)
    assert math.isnan(losses.y[1])
    assert (points.x, points.y, points.points) == ((4.0,), (9.0,), True)
    assert found.fact(SPIKES_OF_THE_LOSS) == 1


@pytest.mark.parametrize(
    ("losses", "logarithmic"),
    [
        ((3.0, 2.0, 9.0), False),
        ((3.0, 2.0, 2.0, 300.0), True),
        ((3.0, -2.0, 2.0, 300.0), False),
        ((3.0, math.inf), False),
    ],
)
def test_the_axis_is_logarithmic_if_a_spike_would_hide_the_rest(losses: tuple[float, ...], logarithmic: bool) -> None:
    found = WatchedLoss().take(Evidence(history=[observation(9, trace=trace(*losses))]))
    assert found.about.axes.log_y == logarithmic


def test_without_a_loss_the_way_to_one_is_named() -> None:
    with pytest.raises(NotMeasurable, match=r"watch.record\(loss\)"):
        WatchedLoss().take(Evidence(history=[observation(2, trace=trace(None, None))]))
