from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import UserError
from lamina.config import _toml, read_values, to_toml, words_to_values
from lamina.model.options import ModelOptions
from lamina.residual.norm import NormOptions

plain = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
keys = st.text(st.characters(codec="ascii"))
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


@given(values)
def test_written_toml_reads_back_as_it_was(value: object) -> None:
    assert tomllib.loads(f"value = {_toml(value)}")["value"] == value


def test_resolved_options_read_back_with_their_descriptions() -> None:
    options = ModelOptions(residual=("b2t", "admin"), residual_options=({}, {"omega": "paper"}), num_layers=(3, 4))
    options = options.model_copy(update={"norm": NormOptions(kind="rms", eps=1e-6)})
    text = to_toml(options)
    assert "# The width of the stream.\nmodel_dim = 512" in text
    assert "[norm]" in text
    assert ModelOptions.read(tomllib.loads(text), where="here") == options


def test_words_override_and_bare_words_are_text() -> None:
    words = ["model.dropout=0.3", "model.residual=b2t", "name=first run", "model.num_layers=[3, 4]", "quiet=true"]
    expected = {"dropout": 0.3, "residual": "b2t", "num_layers": [3, 4]}
    assert words_to_values(words) == {"model": expected, "name": "first run", "quiet": True}


def test_a_file_extends_another_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('seed = 1\n[model]\ndropout = 0.1\nresidual = "pre-ln"\n')
    (tmp_path / "own.toml").write_text('extends = "base.toml"\n[model]\nresidual = "b2t"\n')
    expected = {"seed": 2, "model": {"dropout": 0.1, "residual": "b2t"}}
    assert read_values(tmp_path / "own.toml", ["seed=2"]) == expected


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ('extends = "own.toml"', [], "extends itself"),
        ('extends = "missing.toml"', [], "missing.toml: no such file"),
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
        words_to_values(["in.txt"], example="beam=4")


def test_the_reference_in_the_docs_is_made_from_the_code() -> None:
    from lamina.training.config_reference import config_reference

    stored = Path(__file__).parents[1] / "docs" / "config.md"
    assert stored.read_text() == config_reference(), "run: python -m lamina.training.config_reference > docs/config.md"
    assert "| `model_dim` | `512` | results | The width of the stream. |" in stored.read_text()


def test_every_key_is_documented() -> None:
    from lamina.training.config_reference import config_reference

    rows = [line for line in config_reference().splitlines() if line.startswith("| `") or " | `" in line]
    assert len(rows) > 80
    assert [row for row in rows if row.rstrip().endswith("|  |")] == []
