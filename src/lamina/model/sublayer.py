"""Sub-layers: how they are given, their kind, the keywords of their `forward`, and their weight matrices by role.

Lamina's own sub-layers derive from `Sublayer` and declare their matrices. In other modules the user gives the roles of
the matrices, by patterns of their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar, get_args

from torch import Tensor, nn

from lamina.errors import UserError, unknown
from lamina.residual.base import Matrix, Place, Role

OTHER = "other"
"""The role of a matrix that neither reads the stream nor writes the branch and is left as it is."""
ROLES = tuple(role for role in get_args(Role) if role != "embedding")
RoleOf = str | Sequence[str] | Mapping[str, int]
"""The role of a matrix; of a fused one the roles of its parts, or the number of output channels of each part."""


class Sublayer(nn.Module):
    """The base class of Lamina's own sub-layers."""

    kind: str
    """`self-attention`, `cross-attention` or `feed-forward`."""
    slots: ClassVar[tuple[str, ...]] = ("slot",)
    """The names of the modules that a scheme may replace, see `Residual.slot`; each is the identity by default."""
    slot: nn.Module
    """The module before the last matrix."""

    def __init__(self) -> None:
        super().__init__()
        for name in self.slots:
            setattr(self, name, nn.Identity())

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


def read_layers(layers: Iterable[Iterable[nn.Module]]) -> list[list[nn.Module]]:
    """The sub-layers of every layer; raises if there are none, or if one is not a module."""
    given = list(layers) if isinstance(layers, Iterable) else []
    found = [list(layer) if isinstance(layer, Iterable) else [] for layer in given]
    if not found or not all(found):
        raise UserError("a stack needs a list of at least one layer, and each layer a list of at least one module")
    for number, layer in enumerate(found):
        for each in layer:
            if not isinstance(each, nn.Module):
                raise _no_module(number, each)
    return found


def _no_module(number: int, given: Any) -> UserError:
    name = getattr(given, "__qualname__", repr(given))
    if isinstance(given, type):
        return UserError(f"layer {number}: {name} is a class; call it, so that it is a module: {name}(…)")
    kind = "a function" if callable(given) else f"of type {type(given).__name__}"
    return UserError(f"layer {number}: {name} is {kind}, not a module; call it in the forward of an nn.Module")


def places_of(layers: Sequence[Sequence[nn.Module]]) -> list[list[Place]]:
    """The place of every sub-layer."""
    numbered = [(number, at, module) for number, layer in enumerate(layers) for at, module in enumerate(layer)]
    places: list[list[Place]] = [[] for _ in layers]
    for index, (number, at, module) in enumerate(numbered):
        places[number].append(Place(index, number, kind_of(module), first=at == 0, last=at == len(layers[number]) - 1))
    return places


def kind_of(sublayer: nn.Module) -> str:
    """The kind of a sub-layer, as its place states it.

    `nn.MultiheadAttention` gets the stream as its query alone, so it is cross-attention here.
    """
    if isinstance(sublayer, Sublayer):
        return sublayer.kind
    crossed = isinstance(sublayer, nn.MultiheadAttention) or "memory" in Keywords(sublayer, "").names
    return "cross-attention" if crossed else type(sublayer).__name__


def declared_matrices(sublayer: Sublayer) -> tuple[Matrix, ...]:
    """The matrices that one of Lamina's own sub-layers declares, each once."""
    return tuple({id(each.weight): each for each in reversed([*sublayer.matrices()])}.values())[::-1]


@dataclass(frozen=True)
class Weight:
    """A parameter with two or more dimensions in a module that is not Lamina's."""

    names: list[str]
    """`<layer>.<sub-layer>.<path>` of the module, or of the parameter if it is not called `weight`."""
    parameter: nn.Parameter
    bias: nn.Parameter | None
    is_transposed: bool
    """Whether it is stored as (inputs, outputs), as `Conv1D` of transformers does."""


def weights_of(place: Place, sublayer: nn.Module) -> list[Weight]:
    """The parameters of a sub-layer with two or more dimensions; a tied one is listed once, with all its names."""
    found: dict[int, Weight] = {}
    for path, module in sublayer.named_modules():
        for attribute, parameter in module.named_parameters(recurse=False):
            if parameter.dim() < 2:
                continue
            parts = [f"{place.layer}.{place.index}", path, "" if attribute == "weight" else attribute]
            name = ".".join(filter(None, parts))
            if id(parameter) in found:
                found[id(parameter)].names.append(name)
                continue
            bias = module._parameters.get(attribute.replace("weight", "bias")) if "weight" in attribute else None
            is_transposed = type(module).__name__ == "Conv1D" or (
                bias is not None and parameter.shape[0] != len(bias) == parameter.shape[1]
            )
            found[id(parameter)] = Weight([name], parameter, bias, is_transposed)
    return list(found.values())


@dataclass
class RoleMatrices:
    """The matrices of foreign sub-layers whose roles are given, and the names of the weights without a role."""

    by_place: dict[Place, tuple[Matrix, ...]] = field(default_factory=dict)
    without_role: dict[Place, list[str]] = field(default_factory=dict)


def matrices_by_role(
    sublayers: Sequence[tuple[Place, nn.Module]], roles: Mapping[str, RoleOf], model_dim: int
) -> RoleMatrices:
    """Match patterns such as "*.q_proj" against the names of all weights, see `Weight`."""
    for given in roles.values():
        for role in [given] if isinstance(given, str) else given:
            if role not in (*ROLES, OTHER):
                raise unknown("role", str(role), (*ROLES, OTHER))
    found, unused, names = RoleMatrices(), set(roles), []
    for place, sublayer in sublayers:
        weights = weights_of(place, sublayer)
        matrices: list[Matrix] = []
        for weight in weights:
            names += weight.names
            patterns = [each for each in roles if any(fnmatchcase(name, each) for name in weight.names)]
            unused.difference_update(patterns)
            if not patterns:
                found.without_role.setdefault(place, []).append(weight.names[0])
                continue
            if any(roles[each] != roles[patterns[0]] for each in patterns):
                raise UserError(
                    f"roles: {weight.names[0]} matches {' and '.join(map(repr, patterns))}, which give it different "
                    "roles; make the patterns more specific"
                )
            matrices += _matrices_of(weight, roles[patterns[0]], place)
        if len(weights) == len(matrices) == 1:  # it reads the stream and writes the branch, whatever its role
            matrices = [replace(matrices[0], reads_stream=True, writes_branch=True)]
        for matrix in matrices:
            _check_shape(matrix, place, model_dim)
        if matrices:
            found.by_place[place] = tuple(matrices)
    if unused:
        listing = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise UserError(f"roles: {sorted(unused)[0]!r} matches no weight matrix; there are: {listing or 'none'}")
    return found


def _matrices_of(weight: Weight, given: RoleOf, place: Place) -> Iterator[Matrix]:
    if given == OTHER:
        return
    if weight.parameter.dim() != 2:
        shape = tuple(weight.parameter.shape)
        raise UserError(f"roles: {weight.names[0]} is no matrix, its shape is {shape}; give it the role {OTHER!r}")
    # Detached, so that a part is not recorded as a view by autograd; it shares the memory of the parameter.
    whole: Tensor = weight.parameter
    whole = whole.detach().T if weight.is_transposed else whole
    if isinstance(given, str):
        yield _matrix(given, whole, weight.bias, place, weight.parameter)
        return
    first = 0
    for role, size in _parts(given, whole, weight.names[0]):
        rows = slice(first, first + size)
        first += size
        if role != OTHER:
            bias = None if weight.bias is None else weight.bias.detach()[rows]
            yield _matrix(role, whole.detach()[rows], bias, place, weight.parameter)


def _parts(given: Sequence[str] | Mapping[str, int], whole: Tensor, name: str) -> Iterable[tuple[str, int]]:
    """The roles of the parts of a fused matrix and their numbers of output channels."""
    outputs, inputs = whole.shape
    if isinstance(given, Mapping):
        if sum(given.values()) != outputs:
            raise UserError(f"roles: {name} has {outputs} output channels, but its parts have {sum(given.values())}")
        return given.items()
    size = outputs // len(given)
    if size * len(given) != outputs or ("query" in given and size != inputs):
        sizes = ", ".join(f"{role!r}: …" for role in given)
        raise UserError(
            f"roles: {name} has {outputs} output channels for {inputs} input channels, so its parts may differ in "
            f"size; give the output channels of each: {{{sizes}}}"
        )
    return [(role, size) for role in given]


def _matrix(role: Any, weight: Tensor, bias: Tensor | None, place: Place, parameter: nn.Parameter) -> Matrix:
    reads_memory = place.kind == "cross-attention" and role in ("key", "value")
    reads_stream = role in ("query", "key", "value", "inner", "gate") and not reads_memory
    return Matrix(role, weight, bias, reads_stream, role in ("output", "outer"), held_by=parameter)


def _check_shape(matrix: Matrix, place: Place, model_dim: int) -> None:
    """Raise if a matrix cannot read the stream or write the branch: its role is another, or it is transposed."""
    outputs, inputs = matrix.weight.shape
    if (matrix.reads_stream and inputs != model_dim) or (matrix.writes_branch and outputs != model_dim):
        end = "input" if matrix.reads_stream and inputs != model_dim else "output"
        raise UserError(
            f"roles: {place} has a matrix with role {matrix.role!r} of shape ({outputs}, {inputs}), but such a matrix "
            f"has {model_dim} {end} channels; is it stored as (inputs, outputs), or is its role {OTHER!r}?"
        )
