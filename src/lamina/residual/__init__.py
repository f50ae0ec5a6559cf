"""The residual schemes, one per file: `post_ln.py` is "post-ln" in configs, on the command line and in figures.

No other package refers to a scheme by name. Installed packages add schemes through the entry-point group
`lamina.schemes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from lamina.errors import unknown
from lamina.registry import Registry
from lamina.residual.base import Residual, Shape
from lamina.residual.norm import NormOptions

DEFAULT = "pre-ln"


class _Schemes(Registry[Residual[Any]]):
    """The registry of schemes: files with a `reference`, the loop as the paper writes it; others are shared code."""

    def is_member(self, module: ModuleType, candidate: type[Residual[Any]], name: str) -> bool:
        return hasattr(module, "reference") and super().is_member(module, candidate, name)


SCHEMES = _Schemes(__name__, Residual, kind="residual scheme", group="lamina.schemes")


def schemes() -> list[type[Residual[Any]]]:
    """All schemes, by name."""
    return list(SCHEMES.members.values())


def names() -> list[str]:
    """The names of all schemes, without aliases."""
    return list(SCHEMES)


def find(name: str) -> type[Residual[Any]]:
    """The scheme of that name or alias."""
    by_alias = {alias: scheme for scheme in schemes() for alias in scheme.aliases}
    try:
        return (SCHEMES.members | by_alias)[name]
    except KeyError:
        raise unknown("residual scheme", name, [*names(), *by_alias]) from None


def build(name: str, shape: Shape, norm: NormOptions, options: Mapping[str, Any]) -> Residual[Any]:
    """A scheme for one stack; it checks its own options."""
    scheme = find(name)
    return scheme(shape, norm, scheme.Options.read(options, where=f"residual scheme {scheme.name!r}"))
