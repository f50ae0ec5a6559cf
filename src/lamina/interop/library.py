"""Optional libraries: imported when they are used, with one clear error if they are not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lamina.errors import UserError


def require(module: str, purpose: str, extra: str) -> Any:
    """An optional library; `purpose` begins the error message, as in "lamina export --to onnx"."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{purpose} needs {module.partition('.')[0]} ({error}); install the extra: pip install 'lamina[{extra}]'"
        ) from None
