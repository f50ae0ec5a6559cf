"""The residual schemes. A file is a scheme: `post_ln.py` is "post-ln" in configs, on the command line, in legends.

Nothing outside this folder knows a scheme by name. Installed packages add schemes of their own through the
entry-point group `lamina.schemes`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from lamina.errors import unknown
from lamina.residual.base import Residual, Shape
from lamina.residual.norm import NormOptions

DEFAULT = "pre-ln"
ENTRY_POINTS = "lamina.schemes"


@cache
def _registry() -> dict[str, type[Residual[Any]]]:
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    schemes = {scheme.name: scheme for module in modules for scheme in _schemes_in(module)}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        scheme = _load_foreign(entry, schemes)
        if scheme is not None:
            schemes[entry.name] = scheme
    return dict(sorted(schemes.items()))


def _load_foreign(entry: metadata.EntryPoint, known: Mapping[str, Any]) -> type[Residual[Any]] | None:
    """The scheme of an installed package; one that cannot be used is left out with a warning that names it."""
    where = f"{entry.dist.name if entry.dist else 'a package'}: scheme {entry.name!r} ({entry.value})"
    if entry.name in known:
        warnings.warn(f"{where} has the name of a scheme that is there already; left out", stacklevel=2)
        return None
    try:
        scheme = entry.load()
        if not issubclass(scheme, Residual):
            raise TypeError("not a subclass of lamina.residual.base.Residual")
    except Exception as error:  # somebody else's code: whatever it raises, ours must go on
        warnings.warn(f"{where} cannot be used, left out: {error}", stacklevel=2)
        return None
    scheme.name = entry.name
    return scheme


def _schemes_in(module: Any) -> list[type[Residual[Any]]]:
    """The scheme a file defines; a file without a `reference` is not a scheme but what schemes are made of."""
    if not hasattr(module, "reference"):
        return []
    own = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__]
    return [kind for kind in own if issubclass(kind, Residual)]


def schemes() -> list[type[Residual[Any]]]:
    """All schemes, by name."""
    return list(_registry().values())


def names() -> list[str]:
    """The names a config may use, aliases aside."""
    return list(_registry())


def find(name: str) -> type[Residual[Any]]:
    """The scheme of that name or alias."""
    by_alias = {alias: scheme for scheme in schemes() for alias in scheme.aliases}
    try:
        return (_registry() | by_alias)[name]
    except KeyError:
        raise unknown("residual scheme", name, [*names(), *by_alias]) from None


def build(name: str, shape: Shape, norm: NormOptions, options: Mapping[str, Any]) -> Residual[Any]:
    """A scheme for one stack; it checks its own options."""
    scheme = find(name)
    return scheme(shape, norm, scheme.Options.read(options, where=f"residual scheme {scheme.name!r}"))
