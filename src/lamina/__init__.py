"""Lamina: train deep Transformers whose residual connections you choose, and measure why they do or do not train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina.version import __version__

if TYPE_CHECKING:
    from lamina.api import compare, diagnose, import_model, load, search, train, watch
    from lamina.errors import UserError
    from lamina.interop.rewiring.rewire import rewire
    from lamina.interop.trainer_callback import LaminaCallback
    from lamina.model.stack import Stack
    from lamina.model.transformer import Transformer
    from lamina.residual.norm import NormOptions
    from lamina.runs.listing import list_runs
    from lamina.studies.advice.advise import advise
    from lamina.training.callbacks.base import Callback

__all__ = [
    "Callback",
    "LaminaCallback",
    "NormOptions",
    "Stack",
    "Transformer",
    "UserError",
    "__version__",
    "advise",
    "compare",
    "diagnose",
    "import_model",
    "list_runs",
    "load",
    "rewire",
    "search",
    "train",
    "watch",
]

_HOMES = {
    "Callback": "lamina.training.callbacks.base",
    "LaminaCallback": "lamina.interop.trainer_callback",
    "NormOptions": "lamina.residual.norm",
    "Stack": "lamina.model.stack",
    "Transformer": "lamina.model.transformer",
    "UserError": "lamina.errors",
    "advise": "lamina.studies.advice.advise",
    "compare": "lamina.api",
    "diagnose": "lamina.api",
    "import_model": "lamina.api",
    "list_runs": "lamina.runs.listing",
    "load": "lamina.api",
    "rewire": "lamina.interop.rewiring.rewire",
    "search": "lamina.api",
    "train": "lamina.api",
    "watch": "lamina.api",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `lamina --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
