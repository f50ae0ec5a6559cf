"""Which keywords of a stack's context a sub-layer takes: those its `forward` names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from lamina.errors import UserError


class Keywords:
    def __init__(self, sublayer: nn.Module, name: str) -> None:
        """`name` is what errors call the sub-layer."""
        self.name = name
        named = getattr(sublayer, "_orig_mod", sublayer)  # a compiled module hides the names of its own forward
        _, *others = inspect.signature(named.forward).parameters.values()  # the first is x
        by_name = [each for each in others if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        self.names = tuple(each.name for each in by_name)
        self.required = tuple(each.name for each in by_name if each.default is each.empty)

    def choose(self, context: Mapping[str, Any]) -> dict[str, Any]:
        return {name: context[name] for name in self.names if name in context}

    def require(self, context: Mapping[str, Any]) -> None:
        missing = [name for name in self.required if name not in context]
        if missing:
            raise UserError(f"{self.name} needs {', '.join(missing)}: call the stack as stack(x, {missing[0]}=…)")
