"""The check `overflow`: residual streams and half precision."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Setting
from support.measurements import findings, line, measurement


@pytest.mark.parametrize(
    ("size", "severity"), [(1.0, "fine"), (1e7, "warning"), (1e9, "failure"), (float("nan"), "failure")]
)
def test_a_stream_that_does_not_fit_into_half_precision(size: float, severity: str) -> None:
    """Estimated from the norms of the stream; those of branches do not count."""
    stream = line(1.0, size, first=0, stack="encoder", quantity="stream")
    branch = line(1e12, stack="encoder", quantity="branch")
    (found,) = findings("overflow", [measurement("stream-norms", stream, branch)])
    assert found.severity == severity
    assert (Setting(key="train.precision", value="bf16") in found.remedies) == (severity != "fine")
    if size == 1e9:
        assert found.value == pytest.approx(6 * 1e9**0.5)
        assert "above the threshold of 65,504" in found.sentence


@pytest.mark.parametrize(("largest", "severity"), [(100.0, "fine"), (10_000.0, "warning"), (70_000.0, "failure")])
def test_the_largest_value_of_a_watched_stream_is_taken_as_it_is(largest: float, severity: str) -> None:
    watched = measurement(
        "watched-streams",
        line(1e9, stack="decoder", quantity="root mean square"),
        line(1.0, largest, stack="decoder", quantity="largest"),
    )
    (found,) = findings("overflow", [watched])
    assert (found.severity, found.value, found.location) == (severity, largest, Location(stack="decoder"))


def test_every_stream_is_judged() -> None:
    streams = [
        line(1.0, first=0, stack="encoder", quantity="stream"),
        line(1e9, first=0, stack="encoder", stream="dual", quantity="stream"),
    ]
    found = findings("overflow", [measurement("stream-norms", *streams)])
    assert [(each.severity, each.location.stream) for each in found] == [("failure", "dual"), ("fine", None)]
