"""The stack: one loop over layers, in which the residual scheme decides what each sub-layer reads and writes.

`Stack` takes any modules as sub-layers, Lamina's own or others:

    stack = Stack([[attention, feed_forward], …], model_dim=512, residual="b2t")
    y = stack(x, **context)     # each keyword goes to the sub-layers whose forward names it
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina import residual as schemes
from lamina.errors import UserError, unknown
from lamina.model.initialisation import Initialisation, initialise_matrix
from lamina.model.modes import profiling, refuse_sharded
from lamina.model.sublayer import Keywords, Sublayer, declared_matrices, matrices_by_role
from lamina.options import Options
from lamina.residual.base import Matrix, Observer, Place, Role, Shape, Site, StackEntry
from lamina.residual.norm import NormOptions


class StackOptions(Options):
    """The options of `Stack`, besides layers and the scheme's own options."""

    model_dim: Annotated[int, Field(ge=1)]
    """The width of the stream."""
    residual: str = schemes.DEFAULT
    """The residual scheme; `lamina schemes` lists them."""
    norm: NormOptions = NormOptions()
    """The norm that the scheme uses."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The dropout on the output of every sub-layer."""
    init: Initialisation | None = "xavier"
    """The base initialisation of the matrices whose role is known; None leaves all weights unchanged."""
    part_of: Literal["single", "encoder", "decoder"] = "single"
    """Which stack of a model this is; some schemes treat the two stacks of an encoder–decoder differently."""
    other_num_layers: Annotated[int, Field(ge=0)] = 0
    """The depth of the other stack of an encoder–decoder, which some schemes need."""
    checkpoint_layers: bool = False
    """Activation checkpointing: store only the state between layers and recompute the rest in the backward pass."""

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if self.part_of != "single" and not self.other_num_layers:
            raise ValueError(f"part_of is {self.part_of!r}: give other_num_layers, the depth of the other stack")
        return self


class Layer(nn.Module):
    """The sub-layers of a layer with their sites: the unit of activation checkpointing, sharding and compiling."""

    def __init__(
        self, sublayers: Sequence[nn.Module], sites: Sequence[Site[Any]], places: Sequence[Place], dropout: float
    ) -> None:
        super().__init__()
        self.sublayers = cast(Sequence[nn.Module], nn.ModuleList(sublayers))
        self.sites = cast(Sequence[Site[Any]], nn.ModuleList(sites))
        self.places = places
        self.dropout = nn.Dropout(dropout)
        self.keywords = [Keywords(sublayer, str(place)) for sublayer, place in zip(sublayers, places, strict=True)]

    def forward(self, state: Any, context: Mapping[str, Any], observe: Observer | None = None) -> Any:
        for sublayer, site, keywords in zip(self.sublayers, self.sites, self.keywords, strict=True):
            read = site.read(state)
            branch = sublayer(read, **keywords.choose(context))
            if not isinstance(branch, Tensor) or branch.shape != read.shape:
                raise _wrong_branch(keywords.name, branch, read)
            branch = self.dropout(branch)
            if observe is not None:
                observe(site, state, branch)
            state = site.write(state, branch)
        return state


class Stack(nn.Module):
    def __init__(
        self,
        layers: Sequence[Sequence[nn.Module]],
        *,
        norm: NormOptions | Literal["layer", "rms"] = "layer",
        roles: Mapping[str, Role] | None = None,
        **options: Any,
    ) -> None:
        """
        layers: a list of layers, each a list of modules that map (…, model_dim) to the same shape.
        roles: the roles of weight matrices in modules that are not Lamina's, as {"*.q_proj": "query", …}. Matrices
            with a role are initialised; all other weights are left unchanged. In a module whose forward has an
            argument `memory`, keys and values are computed from that.
        options: the options of `StackOptions` (model_dim, residual, dropout, …) and those of the scheme.
        """
        super().__init__()
        if not layers or not all(isinstance(layer, Sequence) and len(layer) for layer in layers):
            raise UserError("a stack needs a list of at least one layer, and each layer a list of at least one module")
        norm = norm if isinstance(norm, NormOptions) else NormOptions.read({"kind": norm}, where="norm")
        own = {name: value for name, value in options.items() if name in StackOptions.model_fields}
        self.options = StackOptions.read({**own, "norm": norm}, where="Stack")
        num_sublayers = sum(len(layer) for layer in layers)
        part_of, other = self.options.part_of, self.options.other_num_layers
        self.shape = Shape(self.options.model_dim, len(layers), num_sublayers, part_of, other)
        scheme_options = {name: value for name, value in options.items() if name not in own}
        self.residual = schemes.build(self.options.residual, self.shape, norm, scheme_options)
        self.checkpoint_layers = self.options.checkpoint_layers
        built = [
            Layer(layer, [self.residual.site(place) for place in places], places, self.options.dropout)
            for layer, places in zip(layers, _places(layers), strict=True)
        ]
        self.layers = cast(Sequence[Layer], nn.ModuleList(built))
        for place, sublayer, _ in self._sublayers():
            slot = self.residual.slot(place)
            if slot is not None and isinstance(sublayer, Sublayer):
                sublayer.slot = slot
        self._roles = dict(roles or {})
        self._keywords = sorted({name for layer in self.layers for each in layer.keywords for name in each.names})
        if self.options.init is not None:
            self.initialise(self.options.init)

    @property
    def entries(self) -> list[StackEntry]:
        """The sub-layers with their sites and matrices; a matrix that several share is listed with the first.

        Computed at each access, because sharding replaces parameters.
        """
        foreign = [(place, sublayer) for place, sublayer, _ in self._sublayers() if not isinstance(sublayer, Sublayer)]
        by_role = matrices_by_role(foreign, self._roles)
        seen: set[int] = set()
        entries = []
        for place, sublayer, site in self._sublayers():
            matrices = declared_matrices(sublayer) or by_role.get(place, ())
            entries.append(StackEntry(place, site, [each for each in matrices if id(each.weight) not in seen]))
            seen.update(id(each.weight) for each in matrices)
        return entries

    def _sublayers(self) -> Iterator[tuple[Place, nn.Module, Site[Any]]]:
        for layer in self.layers:
            yield from zip(layer.places, layer.sublayers, layer.sites, strict=True)

    def forward(self, x: Tensor, **context: Any) -> Tensor:
        self._check(x, context)
        return self._run(x, context)

    def _run(self, x: Tensor, context: Mapping[str, Any], observe: Observer | None = None) -> Tensor:
        state = self.residual.open(x)
        recompute = self.checkpoint_layers and torch.is_grad_enabled()
        for layer in self.layers:
            if recompute:
                state = checkpoint(layer, state, context, use_reentrant=False)
            else:
                state = layer(state, context, observe)
        return self.residual.close(state)

    @torch.no_grad()
    def initialise(self, init: str, embeddings: Iterable[Matrix] = ()) -> None:
        """Draw the base initialisation of all matrices with a role, which the scheme then changes."""
        for entry in self.entries:
            for matrix in entry.matrices:
                initialise_matrix(matrix, self.residual.base_initialisation or init)
        self.residual.initialise(self.entries, embeddings)

    def calibrate(self, x: Tensor, mask: Tensor | None = None, **context: Any) -> Tensor | None:
        """Run the scheme's calibration on one batch, and return the output of that pass; None if it has none.

        `mask` is True at real positions; sub-layers whose forward has this argument get it too. The pass runs in
        training mode and full precision, and restores the model's mode and the random state. Calibrate before sharding.
        """
        if not self.residual.needs_calibration:
            return None
        if mask is not None:
            if mask.dtype != torch.bool or mask.shape != x.shape[:-1]:
                raise UserError(
                    f"mask must hold booleans of shape {tuple(x.shape[:-1])}, True at real positions, not "
                    f"{mask.dtype} of shape {tuple(mask.shape)}"
                )
            if "mask" in self._keywords:
                context["mask"] = mask
        self._check(x, context)
        with profiling(self, x), self.residual.calibration(self.entries, mask) as observe:
            return self._run(x, context, observe)

    def fold(self) -> Stack:
        """A stack of a plain scheme with the same outputs, for schemes that can be folded."""
        refuse_sharded(self, "folded")
        scheme, options = self.residual.folded()
        for entry in self.entries:
            if not any(getattr(matrix, self.residual.fold_changes) for matrix in entry.matrices):
                raise UserError(
                    f"{entry.place} cannot be folded: its matrices are not known, or shared with another sub-layer; "
                    "give their roles with roles={…}"
                )
        kept = {"model_dim", "dropout", "part_of", "other_num_layers", "checkpoint_layers"}
        plain = Stack(
            [[copy.deepcopy(sublayer) for sublayer in layer.sublayers] for layer in self.layers],
            norm=self.options.norm,
            roles=self._roles,
            residual=scheme,
            init=None,
            **self.options.model_dump(include=kept),
            **options,
        )
        entries, plain_entries = self.entries, plain.entries
        for entry, plain_entry in zip(entries, plain_entries, strict=True):
            sample = next(entry.site.parameters())
            plain_entry.site.to(sample.device, sample.dtype)
        plain.residual.to(sample.device, sample.dtype)
        with torch.no_grad():
            self.residual.fold_into(plain.residual, entries, plain_entries)
        return plain.train(self.training)

    def undecayed_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that the scheme excludes from weight decay."""
        for entry in self.entries:
            yield from entry.site.undecayed()

    def _check(self, x: Tensor, context: Mapping[str, Any]) -> None:
        if x.shape[-1] != self.shape.model_dim:
            raise UserError(f"the stack is {self.shape.model_dim} wide, but its input has {x.shape[-1]} channels")
        for name in context:
            if name not in self._keywords:
                raise unknown("keyword for the sub-layers", name, self._keywords)
        for layer in self.layers:
            for keywords in layer.keywords:
                keywords.require(context)


def _places(layers: Sequence[Sequence[nn.Module]]) -> list[list[Place]]:
    numbered = [(number, at, module) for number, layer in enumerate(layers) for at, module in enumerate(layer)]
    places: list[list[Place]] = [[] for _ in layers]
    for index, (number, at, module) in enumerate(numbered):
        places[number].append(Place(index, number, _kind(module), first=at == 0, last=at == len(layers[number]) - 1))
    return places


def _kind(module: nn.Module) -> str:
    if isinstance(module, Sublayer):
        return module.kind
    return "cross-attention" if "memory" in Keywords(module, "").names else type(module).__name__


def _wrong_branch(name: str, branch: Any, read: Tensor) -> UserError:
    if not isinstance(branch, Tensor):
        kind = type(branch).__name__
        return UserError(f"{name} returned a {kind}, not a tensor; wrap it in a module that returns the branch alone")
    return UserError(f"{name} turned {tuple(read.shape)} into {tuple(branch.shape)}; a branch must keep the shape")
