"""Lamina: train deep Transformers whose residual connections you choose, and measure why they do or do not train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina.version import __version__

if TYPE_CHECKING:
    from lamina.api import diagnose, watch
    from lamina.errors import UserError
    from lamina.interop.trainer_callback import LaminaCallback
    from lamina.model.stack import Stack
    from lamina.model.transformer import Transformer
    from lamina.runs.run import load

__all__ = ["LaminaCallback", "Stack", "Transformer", "UserError", "__version__", "diagnose", "load", "watch"]

_HOMES = {
    "LaminaCallback": "lamina.interop.trainer_callback",
    "Stack": "lamina.model.stack",
    "Transformer": "lamina.model.transformer",
    "UserError": "lamina.errors",
    "diagnose": "lamina.api",
    "load": "lamina.runs.run",
    "watch": "lamina.api",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `lamina --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
