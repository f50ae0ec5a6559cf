"""A first config for a task: the keys that are changed most often, each under its description, for `lamina init`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table
from tomlkit.toml_document import TOMLDocument

from lamina.config import to_toml_item, to_toml_value
from lamina.errors import UserError
from lamina.options import Options
from lamina.residual import DEFAULT
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from lamina.training.config_reference import allowed_values

# Sizes at which every task trains on its embedded data in about a minute on one core.
SMALL: dict[str, dict[str, Any]] = {
    "data": {"store": None, "max_tokens": 1024, "oversize": "alone"},
    "model": {
        "residual": DEFAULT,
        "num_layers": 2,
        "model_dim": 64,
        "feed_forward_dim": 128,
        "num_heads": 4,
        "dropout": 0.1,
    },
    "schedule": {"learning_rate": 1e-3, "warmup_steps": 100},
    "train": {
        "steps": 400,
        "validate_every": 100,
        "save_every": 100,
        "best": "loss",
        "patience": 0,
        "precision": "fp32",
        "device": "auto",
        "threads": 1,
    },
}
SHORT_BLOCKS = {"block_length": 64}
"""Blocks for the embedded documents, which are short."""
EXAMPLES = {"store": "data/own"}
"""Example values for keys without a value, which are written as comments."""


def write_template(task: str, file: str | Path) -> Path:
    """Write a commented config for a task to a new file; one that exists is not overwritten."""
    path, text = Path(file), config_template(task)
    if path.suffix != ".toml":
        raise UserError(f"{path}: a config is a TOML file; choose a name that ends in .toml")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError:
        raise UserError(f"{path}: exists already; choose another name with --output") from None
    return path


def config_template(task: str) -> str:
    """The text of a config that trains on the task's embedded data as it is."""
    document = tomlkit.document()
    for line in (
        "Trains on embedded data as it is: lamina train THIS-FILE. For data of your own, see docs/your-data.md.",
        "All other keys, with their defaults, are in docs/config.md.",
    ):
        document.add(tomlkit.comment(line))
    name = TASKS[task].name
    document.add(tomlkit.nl())
    _add(document, RunConfig, {"task": name, "seed": RunConfig().seed})
    options = TASKS[task].Options
    own = {
        key: SHORT_BLOCKS.get(key, field.default)
        for key, field in options.model_fields.items()
        if not isinstance(field.default, Options)
    }
    for section, values in {"task_options": own, **SMALL}.items():
        if values:
            kind: Any = options if section == "task_options" else RunConfig.model_fields[section].annotation
            table = tomlkit.table()
            _add(table, kind, values)
            document.add(tomlkit.nl())
            document.add(section, table)
    return tomlkit.dumps(document)


def _add(table: TOMLDocument | Table, options: type[Options], values: Mapping[str, Any]) -> None:
    """Each key under its description and the values it takes; a key without a value is commented out."""
    for key, value in values.items():
        field = options.model_fields[key]
        for line in _wrapped(f"{field.description} Allowed: {allowed_values(field)}."):
            table.add(tomlkit.comment(line))
        if value is None:
            table.add(tomlkit.comment(f"{key} = {to_toml_value(EXAMPLES.get(key))}"))
        else:
            table.add(key, to_toml_item(value))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 100, break_on_hyphens=False)
