"""A module list that remembers, for the type checker, what it is a list of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)


def module_list(modules: Iterable[M]) -> Sequence[M]:
    return cast(Sequence[M], nn.ModuleList(modules))
