"""The check `unstable`: updates outside their bands."""

from __future__ import annotations

from math import inf

import pytest

from lamina.diagnosis.results import Finding
from support.measurements import advice, fact, findings, measurement


def unstable(**facts: float) -> Finding:
    named = [fact(name.replace("_", " "), value) for name, value in facts.items()]
    (found,) = findings("unstable", [measurement("watched-updates", facts=named)])
    return found


def test_updates_that_stay_in_their_bands() -> None:
    found = unstable(watched_steps=9, steps_outside=0, steps_with_single_updates_outside=0)
    assert (found.severity, found.sentence) == ("fine", "updates stayed in their bands in 9 watched steps")
    single = unstable(watched_steps=9, steps_outside=0, steps_with_single_updates_outside=2)
    assert single.severity == "fine"
    assert single.sentence.endswith("except for single matrices at 2 steps")


@pytest.mark.parametrize(("furthest", "severity"), [(4.0, "warning"), (inf, "failure")])
def test_updates_that_leave_them(furthest: float, severity: str) -> None:
    found = unstable(
        watched_steps=9,
        steps_outside=2,
        steps_with_single_updates_outside=1,
        first_step_outside=1200,
        furthest_outside=furthest,
    )
    assert (found.severity, found.value, found.threshold) == (severity, 2, 0)
    assert "at 2 of 9 watched steps, first at step 1,200, up to" in found.sentence
    assert "train.clip_norm = 1" in advice(found)


def test_a_band_needs_several_updates_before_it_can_judge_one() -> None:
    severities = [unstable(watched_steps=steps, steps_outside=0).severity for steps in (0, 1, 5, 6)]
    assert severities == ["not measured", "not measured", "not measured", "fine"]


def test_without_facts_nothing_is_judged() -> None:
    assert unstable().severity == "not measured"
