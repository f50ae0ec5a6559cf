"""The names of values in `metrics.jsonl`: those of a validation and of the last evaluation have a prefix.

A prefix rather than a nested table, because trackers take flat names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALID = "valid_"
"""The prefix of values that were measured on the validation split during training."""
FINAL = "final_"
"""The prefix of the task's metrics at the end of the run."""


def prefixed(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    """The values under the names that they have in the file."""
    return {f"{prefix}{name}": value for name, value in values.items()}


def values_of(prefix: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line that have this prefix, by their own names."""
    return {name.removeprefix(prefix): value for name, value in line.items() if name.startswith(prefix)}
