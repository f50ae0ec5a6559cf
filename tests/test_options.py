"""The base of options: what a field affects, and mistakes that are named."""

from __future__ import annotations

from typing import Annotated

from lamina.options import Affects, Options, affects, result_values


class Inner(Options):
    width: int = 1
    colour: Annotated[str, Affects.NOTHING] = "red"


class Outer(Options):
    seed: int = 3
    steps: Annotated[int, Affects.LENGTH] = 10
    device: Annotated[str | None, Affects.ROUNDING] = None
    inner: Inner = Inner()
    shown: Annotated[Inner, Affects.NOTHING] = Inner()


def test_a_field_affects_results_unless_it_says_otherwise() -> None:
    found = {name: affects(field) for name, field in Outer.model_fields.items()}
    assert found["seed"] is found["inner"] is Affects.RESULTS
    assert (found["steps"], found["device"]) == (Affects.LENGTH, Affects.ROUNDING)
    assert found["shown"] is Affects.NOTHING


def test_the_values_that_matter_are_chosen_by_what_they_affect() -> None:
    options = Outer(device="cpu")
    assert result_values(options, Affects.RESULTS) == {"seed": 3, "inner": {"width": 1}}
    more = result_values(options, Affects.RESULTS, Affects.LENGTH, Affects.ROUNDING)
    assert more == {"seed": 3, "steps": 10, "device": "cpu", "inner": {"width": 1}}
    assert result_values(options, Affects.NOTHING) == {"shown": {"colour": "red"}}
