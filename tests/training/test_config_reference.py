"""The reference of config keys leaves none out, however deep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lamina import residual
from lamina.data.readers import READERS
from lamina.tasks import TASKS
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
    tables = {part.splitlines()[0]: part for part in parts[1:]} | {"[]": parts[0]}
    tables["[task_options]"] = tables["[task_options] of translation"]
    found = dict(sections(RunConfig().model_dump()))
    assert {"train", "diagnose", "diagnose.band", "diagnose.thresholds.vanishing"} <= found.keys()
    for section, keys in found.items():
        for key in keys:
            assert f"| `{key}` |" in tables[f"[{section}]"], f"{section}.{key}"
    assert "| `eps` | `1e-05` | number > 0 |" in tables["[model.norm]"]


def test_the_reference_in_the_docs_is_made_from_the_code() -> None:
    stored = Path(__file__).parents[2] / "docs" / "config.md"
    assert stored.read_text() == config_reference(), "run: python -m lamina.training.config_reference > docs/config.md"
    assert (
        "| `model_dim` | `512` | integer ≥ 1 | results | Dimension of embeddings and hidden states. |"
        in stored.read_text()
    )


def test_every_key_is_documented() -> None:
    rows = [line for line in config_reference().splitlines() if line.startswith("| `") or " | `" in line]
    assert len(rows) > 80
    assert [row for row in rows if row.rstrip().endswith("|  |")] == []


def test_closed_sets_are_listed_in_full() -> None:
    table = [line.split("|") for line in config_reference().splitlines()[::-1] if line.startswith("| `")]
    rows = {cells[1].strip(): cells[3].strip() for cells in table}  # of keys in several sections, the first
    assert rows["`task`"].count("`") == 2 * len(TASKS)
    assert all(f"`{name}`" in rows["`residual`"] for name in residual.names())
    assert rows["`residual`"].endswith("or a pair of them")
    assert rows["`preset`"].endswith("or `none`")
    assert all(f"`{name}`" in rows["`format`"] for name in READERS)
    assert rows["`precision`"] == "`fp32`, `bf16`, `fp16`"
    assert rows["`dropout`"] == "number ≥ 0 and < 1"
    assert rows["`betas`"] == "a pair of: number ≥ 0 and < 1"
    assert rows["`track`"] == "a list of: `tensorboard`, `wandb`"
    assert rows["`hold_out`"] == "a table from `valid`, `test` to: integer"
    assert [key for key, allowed in rows.items() if not allowed] == []
