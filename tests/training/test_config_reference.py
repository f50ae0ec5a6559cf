"""The reference of config keys leaves none out, however deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.training.config import RunConfig
from lamina.training.config_reference import config_reference


def sections(values: dict[str, Any], name: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every section of a config's values by its name in TOML, with its own keys."""
    below = {key: value for key, value in values.items() if isinstance(value, dict) and value}
    yield name, [key for key in values if key not in below]
    for key, value in below.items():
        yield from sections(value, f"{name}.{key}".lstrip("."))


def test_every_key_of_every_section_has_its_row() -> None:
    parts = config_reference().split("## A run")[1].split("\n### ")
    tables = {part.splitlines()[0].partition("]")[0].removeprefix("["): part for part in parts[1:]} | {"": parts[0]}
    found = dict(sections(RunConfig().model_dump()))
    assert {"train", "diagnose", "diagnose.band", "diagnose.thresholds.vanishing"} <= found.keys()
    for section, keys in found.items():
        for key in keys:
            assert f"| `{key}` |" in tables[section], f"{section}.{key}"
    assert "| `eps` | `1e-05` |" in tables["model.norm"]
