from __future__ import annotations

import pytest

from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_weakest_layer import WatchedWeakestLayer
from support.observations import matrix, observation
from support.recorded import line


def test_the_weakest_layer_of_the_stack_that_the_loss_is_computed_from() -> None:
    encoder = [matrix(layer, 1.0, stack="encoder") for layer in (1, 2)]
    history = [observation(step, *encoder, matrix(1, share), matrix(2, 1.0)) for step, share in ((1, 0.5), (2, 0.25))]
    found = WatchedWeakestLayer().take(Evidence(history=history))
    assert line(found, stack="decoder") == (0.5, 0.25)
    assert line(found, stack="encoder") == (1.0, 1.0)
    assert [each.location.stack for each in found.find_facts("gives the loss")] == ["decoder"]
    with pytest.raises(NotMeasurable, match="no two trained layers"):
        WatchedWeakestLayer().take(Evidence(history=[observation(1, *encoder, matrix(1, 1.0))]))
