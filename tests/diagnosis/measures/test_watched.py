"""The measures of a watched run, on observations made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lamina.diagnosis.measures.adam_conditioning import AdamConditioning
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_condition import WatchedCondition
from lamina.diagnosis.measures.watched_gradients import WatchedGradients
from lamina.diagnosis.measures.watched_series import weakest_by_stack
from lamina.diagnosis.measures.watched_streams import WatchedStreams
from lamina.diagnosis.measures.watched_updates import WatchedUpdates
from lamina.diagnosis.measures.watched_weakest_layer import WatchedWeakestLayer
from lamina.diagnosis.results import Fact, Location
from lamina.diagnosis.watching.observation import MatrixObservation, Observation, OutsideBand, StreamObservation
from support.recorded import fact, line


def matrix(layer: int | None, gradient: float, update: float | None = 0.1, **where: Any) -> MatrixObservation:
    location = Location(**{"stack": "decoder", "layer": layer, "matrix": "outer"} | where)
    return MatrixObservation(
        location=location, gradient_norm=gradient, update_norm=1.0, relative_update=update, learning_rate=1e-3
    )


def observation(step: int, *matrices: MatrixObservation, **others: Any) -> Observation:
    return Observation(step=step, matrices=matrices, output_stack="decoder", **others)


def test_updates_are_medians_over_layers_and_maps_hold_each_layer() -> None:
    embedding = matrix(None, 1.0, 0.7, stack=None, matrix=None, module="embeddings.source")
    history = [
        observation(10, matrix(1, 1.0, 0.1), matrix(2, 1.0, 0.3), matrix(3, 1.0, 0.2), embedding),
        observation(20, matrix(1, 1.0, 0.2), matrix(3, 1.0, None)),
    ]
    found = WatchedUpdates().take(Evidence(history=history))
    assert line(found, stack="decoder", matrix="outer") == (0.2, 0.2)
    assert line(found, module="embeddings.source")[0] == 0.7
    assert math.isnan(line(found, module="embeddings.source")[1])
    assert found.measured[0].x == (10, 20)
    (grid,) = found.grids
    assert [row[0] for row in grid.values] == [0.1, 0.3, 0.2]
    assert math.isnan(grid.values[1][1])
    assert (fact(found, "watched steps"), fact(found, "steps outside")) == (2, 0)


def test_steps_outside_the_band() -> None:
    outside = tuple(
        OutsideBand(location=Location(stack="decoder", layer=layer), times_usual=times)
        for layer, times in ((1, 3.0), (2, 0.1))
    )
    history = [
        observation(1, matrix(1, 1.0), outside=outside[:1]),
        observation(2, matrix(1, 1.0), outside=outside, unstable=True),
        observation(3, matrix(1, 1.0)),
    ]
    found = WatchedUpdates().take(Evidence(history=history))
    assert fact(found, "steps outside") == 1
    assert fact(found, "steps with single updates outside") == 1
    assert (fact(found, "first step outside"), fact(found, "most matrices outside")) == (2, 2)
    assert fact(found, "furthest outside") == 0.1, "a tenth is further than three times"


def test_gradients() -> None:
    found = WatchedGradients().take(Evidence(history=[observation(1, matrix(1, 2.0), matrix(2, 4.0))]))
    assert line(found, stack="decoder", matrix="outer") == (3.0,)
    assert found.facts == ()


def test_the_weakest_layer_of_the_stack_that_the_loss_is_computed_from() -> None:
    encoder = [matrix(layer, 1.0, stack="encoder") for layer in (1, 2)]
    history = [observation(step, *encoder, matrix(1, share), matrix(2, 1.0)) for step, share in ((1, 0.5), (2, 0.25))]
    found = WatchedWeakestLayer().take(Evidence(history=history))
    assert line(found, stack="decoder") == (0.5, 0.25)
    assert line(found, stack="encoder") == (1.0, 1.0)
    assert [each.location.stack for each in found.find_facts("judged")] == ["decoder"]
    with pytest.raises(NotMeasurable, match="no two trained layers"):
        WatchedWeakestLayer().take(Evidence(history=[observation(1, *encoder, matrix(1, 1.0))]))


def test_layers_without_gradient_and_infinite_gradients_are_not_compared() -> None:
    assert weakest_by_stack(observation(1, matrix(1, 0.0), matrix(2, 0.5), matrix(3, 1.0)))["decoder"] == (2, 3, 0.5)
    assert weakest_by_stack(observation(1, matrix(1, math.inf), matrix(2, 1.0))) == {}


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


def test_streams() -> None:
    stream = StreamObservation(stack="decoder", root_mean_squares=(1.0, 2.0), largest=9.0)
    found = WatchedStreams().take(Evidence(history=[observation(1, streams=(stream,)), observation(2)]))
    assert line(found, stack="decoder", quantity="root mean square")[0] == 2.0
    assert line(found, stack="decoder", quantity="largest")[0] == 9.0
    assert math.isnan(line(found, quantity="largest")[1])
    assert [row[0] for row in found.grids[0].values] == [1.0, 2.0]
    with pytest.raises(NotMeasurable, match="compiled"):
        WatchedStreams().take(Evidence(history=[observation(1)]))
