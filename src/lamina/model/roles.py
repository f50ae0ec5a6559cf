"""The weight matrices of sub-layers by role: declared by Lamina's own, named by pattern for foreign ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import get_args

from torch import Tensor, nn

from lamina.errors import UserError, unknown
from lamina.model.sublayer import Sublayer
from lamina.residual.base import Matrix, Place, Role


def declared_matrices(sublayer: nn.Module) -> tuple[Matrix, ...]:
    """What the sub-layer says of itself, as Lamina's own do."""
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
