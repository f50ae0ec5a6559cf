"""What a peer imports but decoding never calls: data sets, tokenisers, logs of training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """Has every name; each is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


@contextmanager
def standing_in(*modules: str) -> Iterator[None]:
    """Import inside; afterwards the real ones, if there are any, can be imported again."""
    absent = [name for name in modules if name not in sys.modules]
    sys.modules.update({name: _StandIn(name) for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
