"""The check `collapse`: upper layers that hardly change the stream."""

from __future__ import annotations

from lamina.diagnosis.checks.collapse import first_idle
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import SchemeTrait
from support.measurements import fact, findings, line, measured, measurement


def test_deep_pre_ln_collapses_and_post_ln_does_not() -> None:
    pre = findings("collapse", measured("pre-ln", 18), schemes=["pre-ln"])
    encoder = next(each for each in pre if each.location.stack == "encoder")
    assert encoder.severity == "warning", "it trains nevertheless"
    assert encoder.location.sublayer is not None
    assert f"from sub-layer {encoder.location.sublayer} on" in encoder.sentence
    assert "mean cosine of the layers with the last" in encoder.sentence
    assert SchemeTrait(avoids="collapse", schemes=("b2t", "resi-dual")) in encoder.remedies
    assert all(each.severity == "fine" for each in findings("collapse", measured("post-ln", 18), schemes=["post-ln"]))


def test_the_place_is_that_from_which_all_are_idle() -> None:
    changes = line(1.0, 1.0, 0.9, 0.8, 0.5, 0.4, stack="stack")
    found = measurement("hidden-change", changes, facts=[fact("last/first third", 0.45, stack="stack")])
    (collapsed,) = findings("collapse", [found])
    assert collapsed.location == Location(stack="stack", sublayer=5)
    assert (collapsed.value, collapsed.threshold) == (0.45, 0.6)
    assert "0.45 of what the first third does, below the threshold of 0.6" in collapsed.sentence


def test_the_first_sublayer_from_which_a_stack_is_idle() -> None:
    assert first_idle([1.0, 1.0, 0.9, 0.8, 0.5, 0.4], 0.6) == 5
    assert first_idle([1.0, 1.0, 0.1, 1.0], 0.6) is None, "the last one works"
    assert first_idle([1.0], 0.6) is None


def test_a_change_that_is_not_a_number_is_not_judged() -> None:
    found = measurement("hidden-change", facts=[fact("last/first third", float("nan"), stack="stack")])
    assert [each.severity for each in findings("collapse", [found])] == ["not measured"]
