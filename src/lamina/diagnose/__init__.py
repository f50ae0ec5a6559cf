"""Why a Transformer trains, or does not.

`lamina.diagnose(model, batch)` is what people call, and the room has the same name: so the module can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """The function ends in a page and lives above this room: it is found by name, for nothing here imports it."""
        return import_module("lamina.diagnosis").diagnose(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
