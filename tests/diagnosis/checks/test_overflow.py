"""The check `overflow`: residual streams and half precision."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Setting
from support.measurements import fact, findings, line, measurement


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


def test_a_branch_that_is_larger_than_the_stream_is_named_with_its_layer() -> None:
    stream = measurement("stream-norms", line(1.0, 4.0, first=0, stack="stack", quantity="stream"))
    place = {"stack": "stack", "layer": 3, "module": "h.2.fc1"}
    (found,) = findings("overflow", [stream, measurement("module-ranges", facts=[fact("largest", 70_000.0, **place)])])
    assert (found.severity, found.value, found.location) == ("failure", 70_000.0, Location(**place))
    assert "h.2.fc1 in layer 3 of the stack" in found.sentence
    (small,) = findings("overflow", [stream, measurement("module-ranges", facts=[fact("largest", 3.0, **place)])])
    assert small.location == Location(stack="stack"), "the stream is larger"


def test_one_watched_step_is_not_enough_to_be_fine() -> None:
    def severity(*largest: float) -> str:
        series = line(*largest, stack="decoder", quantity="largest")
        return findings("overflow", [measurement("watched-streams", series)])[0].severity

    assert (severity(1.0), severity(1.0, 2.0), severity(1e6)) == ("not measured", "fine", "failure")
