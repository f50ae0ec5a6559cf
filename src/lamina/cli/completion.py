"""What the shell completes besides commands and options: schemes, tasks and config keys.

`lamina --install-completion` switches completion on for the shell in use. Modules are imported inside the functions,
because they are needed for nothing else and import torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def complete_scheme(incomplete: str) -> list[str]:
    """Names of residual schemes."""
    from lamina import residual

    return [name for name in residual.names() if name.startswith(incomplete)]


def complete_task(incomplete: str) -> list[str]:
    """Names of tasks."""
    from lamina.tasks import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Keys of a run's config, as overrides begin: `model.residual=`."""
    from lamina.training.config import RunConfig

    return [key for key in _keys(RunConfig) if key.startswith(incomplete)]


def _keys(options: Any, above: str = "") -> Iterator[str]:
    for name, field in options.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and hasattr(nested, "model_fields"):
            yield from _keys(nested, f"{above}{name}.")
        else:
            yield f"{above}{name}="
