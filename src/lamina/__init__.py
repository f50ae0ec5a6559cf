"""Lamina: train deep Transformers whose residual connections you choose, and measure why they do or do not train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.callback import LaminaCallback
    from lamina.diagnosis import diagnose, watch
    from lamina.errors import UserError
    from lamina.model.stack import Stack
    from lamina.model.transformer import Transformer
    from lamina.train.run import load

__version__ = "0.1.0"
__all__ = ["LaminaCallback", "Stack", "Transformer", "UserError", "__version__", "diagnose", "load", "watch"]

_HOMES = {
    "LaminaCallback": "lamina.callback",
    "Stack": "lamina.model.stack",
    "Transformer": "lamina.model.transformer",
    "UserError": "lamina.errors",
    "diagnose": "lamina.diagnosis",
    "load": "lamina.train.run",
    "watch": "lamina.diagnosis",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `lamina --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
