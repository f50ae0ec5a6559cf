"""The check `collapse`: upper layers that hardly change the stream."""

from __future__ import annotations

from lamina.diagnosis.checks.collapse import Collapse, first_idle
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import SchemeTrait
from support.measurements import fact, findings, line, measured, measurement


def test_pre_ln_alone_does_not_collapse_at_any_depth() -> None:
    """Its stream grows, so that later branches count for less; only small branches as well are a fault."""
    for scheme in ("pre-ln", "post-ln"):
        assert {each.severity for each in findings("collapse", measured(scheme, 18), schemes=[scheme])} == {"fine"}
    for number in (6, 24, 96, 400):
        third = number // 3
        changes = [place**-0.5 for place in range(1, number + 1)]
        share = sum(changes[-third:]) / sum(changes[:third])
        assert share > Collapse.Thresholds().warning, number


def test_upper_layers_that_hardly_change_the_stream_are_named() -> None:
    cosines = measurement("cosine-of-layers", facts=[fact("all with last", 0.97, stack="stack")])
    changes = line(1.0, 1.0, 0.9, 0.8, 0.1, 0.1, stack="stack")
    found = measurement("hidden-change", changes, facts=[fact("last/first third", 0.1, stack="stack")])
    (collapsed,) = findings("collapse", [found, cosines], schemes=["pre-ln"])
    assert collapsed.severity == "warning", "it may train nevertheless"
    assert "from sub-layer 5 on" in collapsed.sentence
    assert SchemeTrait(avoids="collapse", schemes=("b2t", "resi-dual")) in collapsed.remedies


def test_the_place_is_that_from_which_all_are_idle() -> None:
    changes = line(1.0, 1.0, 0.9, 0.8, 0.29, 0.2, stack="stack")
    found = measurement("hidden-change", changes, facts=[fact("last/first third", 0.245, stack="stack")])
    (collapsed,) = findings("collapse", [found])
    assert collapsed.location == Location(stack="stack", sublayer=5)
    assert (collapsed.value, collapsed.threshold) == (0.245, 0.3)
    assert "0.245 of what the first third does, below the threshold of 0.3" in collapsed.sentence


def test_the_first_sublayer_from_which_a_stack_is_idle() -> None:
    assert first_idle([1.0, 1.0, 0.9, 0.8, 0.5, 0.4], 0.6) == 5
    assert first_idle([1.0, 1.0, 0.1, 1.0], 0.6) is None, "the last one works"
    assert first_idle([1.0], 0.6) is None


def test_a_change_that_is_not_a_number_is_not_judged() -> None:
    found = measurement("hidden-change", facts=[fact("last/first third", float("nan"), stack="stack")])
    assert [each.severity for each in findings("collapse", [found])] == ["not measured"]
