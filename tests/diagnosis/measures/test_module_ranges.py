"""The measure `module-ranges`."""

from __future__ import annotations

from math import inf

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.module_ranges import LARGEST, LIMIT, RECOVERED, ModuleRanges
from lamina.diagnosis.recording.ranges import ModuleRange, NonFinite
from support.observations import observation
from support.recorded import fact, line

FLOAT, HALF = 3.4e38, 65504.0


def module(
    path: str, layer: int | None, output: float, gradient: float | None = 1.0, limit: float = FLOAT
) -> ModuleRange:
    return ModuleRange(path, None if layer is None else "stack", layer, 1.0, output, limit, gradient)


def test_the_largest_of_each_layer_and_its_module() -> None:
    found = ModuleRanges().of(
        [
            module("h.0.fc", 0, 3.0, 0.1),
            module("h.0", 0, 2.0, 0.5),
            module("h.1.fc", 1, 7.0, None),
            module("h.1.mask", 1, 0.99 * FLOAT, None),
            module("head", None, 100.0),
        ],
        None,
    )
    assert line(found, stack="stack", quantity="output") == (3.0, 7.0), "masks and other modules do not count"
    assert line(found, stack="stack", quantity="gradient") == (0.5,)
    assert fact(found, LARGEST, module="h.1.fc", layer=2) == 7.0


def test_the_first_module_that_is_not_finite() -> None:
    place = Location(stack="stack", layer=1, module="h.0.fc")
    found = ModuleRanges().of([module("h.0.fc", 0, inf, limit=HALF)], NonFinite("output", place, 9.0, 2.0, HALF))
    assert fact(found, LIMIT, module="h.0.fc", quantity="output") == HALF
    assert line(found, stack="stack", quantity="output") == (inf,)


@pytest.mark.parametrize("recovers", [False, True])
def test_of_a_watched_run_the_first_such_step_is_reported(recovers: bool) -> None:
    measure, place = ModuleRanges(), Location(stack="stack", layer=1, module="h.0.fc")
    finite = measure.of([module("h.0.fc", 0, 1.0)], None)
    bad = measure.of([module("h.0.fc", 0, inf)], NonFinite("output", place, 9.0, 2.0, HALF))
    steps = [finite, bad, finite] if recovers else [finite, bad]
    history = [observation(step, ranges=each) for step, each in enumerate(steps)]
    found = measure.take(Evidence(history=history))
    assert found.find_facts(LIMIT)
    assert [each.value for each in found.find_facts(RECOVERED)] == ([2.0] if recovers else [])
