from __future__ import annotations

import pytest

from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.watched_streams import WatchedStreams
from lamina.diagnosis.watching.observation import StreamObservation
from support.observations import observation
from support.recorded import line


def test_streams() -> None:
    stream = StreamObservation(stack="decoder", root_mean_squares=(1.0, 2.0), largest=9.0)
    found = WatchedStreams().take(Evidence(history=[observation(1, streams=(stream,)), observation(2)]))
    assert line(found, stack="decoder", quantity="root mean square")[0] == 2.0
    assert line(found, stack="decoder", quantity="largest")[0] == 9.0
    assert line(found, quantity="largest") == (9.0,), "a step that is observed for its spike has no streams"
    assert [row[0] for row in found.grids[0].values] == [1.0, 2.0]
    with pytest.raises(NotMeasurable, match="compiled"):
        WatchedStreams().take(Evidence(history=[observation(1)]))
