"""The config of a foreign model: values of other types, and files that are no config, are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig


def test_values_and_defaults() -> None:
    config = ForeignConfig({"layers": 3, "none": None, "eos": [7, 8], "act": "swish"}, "config.json")
    assert config.number("layers", 1) == 3
    assert config.number("none", 4) == 4
    assert config.token("eos") == 7
    assert config.choose("act", "relu", {"swish": "silu"}) == "silu"
    config.refuse("absent", False, "never")


def test_mistakes_name_the_key() -> None:
    config = ForeignConfig({"layers": True, "eos": "end", "act": "tanh", "one": 1, "other": 2}, "config.json")
    with pytest.raises(UserError, match=r"config\.json: layers = True is not a whole number"):
        config.number("layers", 1)
    with pytest.raises(UserError, match="eos = 'end' is not the id of a token"):
        config.token("eos")
    with pytest.raises(UserError, match="act = 'tanh' cannot be imported; these can: relu"):
        config.choose("act", "relu", {"relu": "relu"})
    with pytest.raises(UserError, match="one = 1, but other = 2"):
        config.same("one", "other", 0)
    with pytest.raises(UserError, match="one = 1 cannot be imported: because"):
        config.refuse("one", 0, "because")


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"a": '])
def test_a_file_that_is_no_config(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json: "):
        ForeignConfig.read(tmp_path)
