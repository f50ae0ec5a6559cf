from __future__ import annotations

import math

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.watched_updates import WatchedUpdates
from lamina.diagnosis.watching.observation import OutsideBand
from support.observations import matrix, observation
from support.recorded import fact, line


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
