from __future__ import annotations

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.watched_gradients import WatchedGradients
from support.observations import matrix, observation
from support.recorded import line


def test_gradients() -> None:
    found = WatchedGradients().take(Evidence(history=[observation(1, matrix(1, 2.0), matrix(2, 4.0))]))
    assert line(found, stack="decoder", matrix="outer") == (3.0,)
    assert found.facts == ()
