"""Sub-layers: their kind, the keywords of their `forward`, and their weight matrices by role.

Lamina's own sub-layers derive from `Sublayer` and declare their matrices; the matrices of other modules are named by
pattern.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, get_args

from torch import Tensor, nn

from lamina.errors import UserError, unknown
from lamina.residual.base import Matrix, Place, Role


class Sublayer(nn.Module):
    """The base class of Lamina's own sub-layers."""

    kind: str
    """`self-attention`, `cross-attention` or `feed-forward`."""
    slot: nn.Module
    """A module that a scheme may put before the last matrix; the identity by default."""

    def __init__(self) -> None:
        super().__init__()
        self.slot = nn.Identity()

    def matrices(self) -> Iterator[Matrix]:
        """The weight matrices by role, for initialisation and folding."""
        raise NotImplementedError


class Keywords:
    """The keywords of a stack's context that a sub-layer takes: the arguments of its `forward`, besides x."""

    def __init__(self, sublayer: nn.Module, name: str) -> None:
        """`name` is the sub-layer's name in error messages."""
        self.name = name
        named = getattr(sublayer, "_orig_mod", sublayer)  # a compiled module hides the signature of its forward
        _, *others = inspect.signature(named.forward).parameters.values()  # the first is x
        by_name = [each for each in others if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        self.names = tuple(each.name for each in by_name)
        self.required = tuple(each.name for each in by_name if each.default is each.empty)

    def choose(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the context that the sub-layer takes."""
        return {name: context[name] for name in self.names if name in context}

    def require(self, context: Mapping[str, Any]) -> None:
        """Raise if an argument without default is missing."""
        missing = [name for name in self.required if name not in context]
        if missing:
            raise UserError(f"{self.name} needs {', '.join(missing)}: call the stack as stack(x, {missing[0]}=…)")


def declared_matrices(sublayer: nn.Module) -> tuple[Matrix, ...]:
    """The matrices that one of Lamina's own sub-layers declares; none for other modules."""
    return tuple(sublayer.matrices()) if isinstance(sublayer, Sublayer) else ()


def matrices_by_role(
    sublayers: Sequence[tuple[Place, nn.Module]], roles: Mapping[str, Role]
) -> dict[Place, tuple[Matrix, ...]]:
    """Match patterns such as "*.q_proj" against `<layer>.<sub-layer>.<path>` of every module with a weight matrix."""
    for role in roles.values():
        if role not in get_args(Role):
            raise unknown("role", role, get_args(Role))
    unused = set(roles)
    found: dict[Place, list[Matrix]] = defaultdict(list)
    names = []
    for place, sublayer in sublayers:
        for path, module in sublayer.named_modules():
            weight = getattr(module, "weight", None)
            if not isinstance(weight, nn.Parameter) or weight.dim() != 2:
                continue
            names.append(f"{place.layer}.{place.index}" + (f".{path}" if path else ""))
            for pattern, role in roles.items():
                if fnmatchcase(names[-1], pattern):
                    found[place].append(_by_role(role, weight, getattr(module, "bias", None), place))
                    unused.discard(pattern)
    if unused:
        listing = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise UserError(f"roles: {sorted(unused)[0]!r} matches no weight matrix; there are: {listing or 'none'}")
    return {place: _alone_is_both(found[place], sublayer) for place, sublayer in sublayers if place in found}


def _by_role(role: Role, weight: Tensor, bias: Tensor | None, place: Place) -> Matrix:
    reads_memory = place.kind == "cross-attention" and role in ("key", "value")
    reads_stream = role in ("query", "key", "value", "inner", "gate") and not reads_memory
    return Matrix(role, weight, bias, reads_stream, writes_branch=role in ("output", "outer"))


def _alone_is_both(matrices: Sequence[Matrix], sublayer: nn.Module) -> tuple[Matrix, ...]:
    """The only matrix of a sub-layer reads the stream and writes the branch, whatever its role."""
    if sum(parameter.dim() == 2 for parameter in sublayer.parameters()) == 1:
        return (replace(matrices[0], reads_stream=True, writes_branch=True),)
    return tuple(matrices)
