"""The base of options: what a field affects, and mistakes that are named."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import pytest

from lamina.errors import UserError
from lamina.options import Added, Affects, Formerly, Options, affects, own_options, result_values


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


class Renamed(Options):
    keep_checkpoints: Annotated[int, Formerly("keep")] = 3
    inner: Annotated[Inner, Formerly("within")] = Inner()


class Around(Options):
    train: Renamed = Renamed()


def test_a_former_name_is_accepted_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"train": {"keep": 5, "within": {"width": 2}}}
    for _ in range(2):  # a file may be read twice; the note is printed once
        options = Around.read(given, where="old.toml")
        assert options == Around(train=Renamed(keep_checkpoints=5, inner=Inner(width=2)))
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "old.toml: 'keep' is now called 'keep_checkpoints'; the next version will not know the former name",
        "old.toml: 'within' is now called 'inner'; the next version will not know the former name",
    ]
    assert printed.out == ""
    assert options.model_dump() == {"train": {"keep_checkpoints": 5, "inner": {"width": 2, "colour": "red"}}}


def test_a_former_name_in_python_warns() -> None:
    with pytest.warns(FutureWarning, match="'keep' is now called 'keep_checkpoints'") as warned:
        assert Renamed(keep=5).keep_checkpoints == 5  # type: ignore[call-arg]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Renamed(keep_checkpoints=5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"keep": 1, "keep_checkpoints": 1}}, "train.keep: this is the former name of 'keep_checkpoints'"),
        ({"train": {"keep": "x"}}, "train.keep_checkpoints: must be a whole number"),
        ({"train": {"keep_checkpoint": 1}}, "train.*'keep_checkpoint'; did you mean 'keep_checkpoints'"),
        ({"train": {"inner": {"colur": 1}}}, "train.inner.colur: unknown option 'colur'; did you mean 'colour'"),
        ({"train": {"inner": {"width": True}}}, "train.inner.width: width is a number or a word, not true"),
        ({"train": 3}, r"train: a section with keys of its own; set one of these \(given: 3\)"),
    ],
)
def test_a_mistake_names_its_whole_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^own.toml: {message}"):
        Around.read(values, where="own.toml")


def test_none_stands_for_no_value_where_there_may_be_none() -> None:
    assert Outer.read({"device": "none"}, where="test").device is None
    assert Inner.read({"colour": "none"}, where="test").colour == "none"


def test_options_whose_class_another_field_decides() -> None:
    assert own_options(Inner, {"width": 2}) == Inner(width=2)
    same = Inner(width=3)
    assert own_options(Inner, same) is same
    assert own_options(Inner, Options()) == Inner()
    assert own_options(Outer, Outer(seed=1)) == Outer(seed=1)


def test_a_key_that_was_added_counts_only_when_it_is_used() -> None:
    class Grown(Options):
        width: int = 1
        base: Annotated[float, Added()] = 10.0

    assert result_values(Grown(), Affects.RESULTS) == {"width": 1}
    assert result_values(Grown(base=20.0), Affects.RESULTS) == {"width": 1, "base": 20.0}
