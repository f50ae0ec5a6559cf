from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict

from lamina import UserError
from lamina.config import read_overrides, read_values, to_toml, to_toml_value
from lamina.model.options import ModelOptions
from lamina.options import Options
from lamina.residual.norm import NormOptions

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), texts)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


class Part(Options):
    model_config = ConfigDict(allow_inf_nan=True)

    text: str = "of the part"
    """Text, \t with "odd" characters # in its description."""
    number: float = math.inf


class Whole(Options):
    anything: Any = 1
    text: str = ""
    """A description that goes on
    in a second line."""
    maybe_text: str | None = None
    maybe_number: int | None = 3
    part: Part = Part()
    """A section."""
    parts: tuple[Part, ...] = ()
    names: tuple[str, ...] = ()
    numbers: dict[str, float] = {}


parts = st.builds(Part, text=texts, number=st.floats(allow_nan=False))
wholes = st.builds(
    Whole,
    anything=values,
    text=texts,
    maybe_text=st.none() | texts,
    maybe_number=st.none() | st.integers(-9, 9),
    part=parts,
    parts=st.lists(parts, max_size=2).map(tuple),
    names=st.lists(texts, max_size=3).map(tuple),
    numbers=st.dictionaries(texts, st.floats(-9, 9), max_size=3),
)


@given(wholes)
def test_a_config_that_is_written_and_read_is_the_same(options: Whole) -> None:
    assert Whole.read(tomllib.loads(to_toml(options)), where="here") == options


def test_every_value_is_written_under_its_description() -> None:
    text = to_toml(Whole(text="a\nb", parts=(Part(),)))
    assert '# A description that goes on in a second line.\ntext = "a\\nb"\n' in text
    assert 'maybe_text = "none"\nmaybe_number = 3\n' in text
    assert '\n[part]\n# Text, with "odd" characters # in its description.\n' in text
    assert "number = inf" in text
    assert set(tomllib.loads(text)) == set(Whole.model_fields)


def test_a_pair_of_schemes_has_a_pair_of_options() -> None:
    options = ModelOptions(residual=("b2t", "admin"), residual_options=({}, {"omega": "paper"}), num_layers=(3, 4))
    options = options.model_copy(update={"norm": NormOptions(kind="rms", eps=1e-6)})
    text = to_toml(options)
    assert "# Dimension of embeddings and hidden states.\nmodel_dim = 512" in text
    assert "[norm]" in text
    assert ModelOptions.read(tomllib.loads(text), where="here") == options


def test_one_value_as_toml() -> None:
    found = [to_toml_value(each) for each in ("a", None, True, 1e-5, (1, "b"), {})]
    assert found == ['"a"', '"none"', "true", "1e-05", '[1, "b"]', "{}"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("residual=b2t", {"residual": "b2t"}),
        ("residual=resi-dual", {"residual": "resi-dual", "residual_options": {"dual_scale": 0.5}}),
        (
            "residual_options.dual_precision=stream",
            {"residual": "resi-dual", "residual_options": {"dual_scale": 0.5, "dual_precision": "stream"}},
        ),
    ],
)
def test_options_of_a_scheme_do_not_outlive_it(tmp_path: Path, change: str, expected: dict[str, Any]) -> None:
    (tmp_path / "own.toml").write_text('residual = "resi-dual"\nresidual_options = { dual_scale = 0.5 }\n')
    assert read_values(tmp_path / "own.toml", [change], ModelOptions) == expected
    assert "residual_options" in read_values(tmp_path / "own.toml", [change])  # nothing is read out of names of keys


def test_overrides_replace_values_and_bare_words_are_text() -> None:
    words = ["model.dropout=0.3", "model.residual=b2t", "name=first run", "model.num_layers=[3, 4]", "quiet=true"]
    expected = {"dropout": 0.3, "residual": "b2t", "num_layers": [3, 4]}
    assert read_overrides(words) == {"model": expected, "name": "first run", "quiet": True}


def test_a_file_extends_another_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('seed = 1\n[model]\ndropout = 0.1\nresidual = "pre-ln"\n')
    (tmp_path / "own.toml").write_text('extends = "base.toml"\n[model]\nresidual = "b2t"\n')
    expected = {"seed": 2, "model": {"dropout": 0.1, "residual": "b2t"}}
    assert read_values(tmp_path / "own.toml", ["seed=2"]) == expected


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ('extends = "own.toml"', [], "extends itself"),
        ('extends = "missing.toml"', [], "missing.toml: no such file; .*own.toml extends it: correct"),
        ("a = " + "[" * 3000, [], "nested too deeply"),
        ("a = 1", ["b=" + "[" * 3000], "b: the value is nested too deeply"),
        ("a = " + "9" * 5000, [], "not a TOML file"),
        ("extends = 3", [], "must name one file"),
        ("a = = 2", [], "not a TOML file.*line 1"),
        ("a = 1", ["dropout"], "'dropout' is not of the form key=value"),
    ],
)
def test_mistakes(tmp_path: Path, content: str, words: list[str], message: str) -> None:
    (tmp_path / "own.toml").write_text(content)
    with pytest.raises(UserError, match=message):
        read_values(tmp_path / "own.toml", words)


def test_the_example_is_one_of_the_command() -> None:
    with pytest.raises(UserError, match=r"'in.txt' is not of the form key=value, such as beam=4"):
        read_overrides(["in.txt"], example="beam=4")
