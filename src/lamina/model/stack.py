"""The stack: one loop over layers, in which the residual scheme decides what each sub-layer reads and writes.

`Stack` takes any modules as sub-layers, Lamina's own or others:

    stack = Stack([[attention, feed_forward], …], model_dim=512, residual="b2t")
    y = stack(x, **context)     # each keyword goes to the sub-layers whose forward names it
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina import residual as schemes
from lamina.errors import UserError, unknown
from lamina.model.initialisation import Initialisation, initialise_matrix
from lamina.model.kernels.dropout import Dropout, MaskSequence
from lamina.model.modes import profiling, refuse_sharded
from lamina.model.sublayer import (
    OTHER,
    Keywords,
    RoleMatrices,
    RoleOf,
    Sublayer,
    declared_matrices,
    matrices_by_role,
    places_of,
    read_layers,
)
from lamina.options import Options
from lamina.residual.base import Matrix, Observer, Place, Shape, Site, StackEntry
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
    """The base initialisation of the matrices whose role is known; None leaves all weights unchanged. With `roles` it
    must be given, because the weights may be trained already."""
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
    """The sub-layers of a layer with their sites: the unit of activation checkpointing, sharding and compiling.

    Where the input of a sub-layer is the stream itself, a module that is not Lamina's gets a copy, because it may
    change its input in place (`nn.ReLU(inplace=True)`). Lamina's own sub-layers never do, and get no copy.
    """

    def __init__(
        self, sublayers: Sequence[nn.Module], sites: Sequence[Site[Any]], places: Sequence[Place], dropout: float
    ) -> None:
        super().__init__()
        self.sublayers = cast(Sequence[nn.Module], nn.ModuleList(sublayers))
        self.sites = cast(Sequence[Site[Any]], nn.ModuleList(sites))
        self.places = places
        self.dropout = Dropout(dropout)
        self.keywords = [Keywords(sublayer, str(place)) for sublayer, place in zip(sublayers, places, strict=True)]

    def forward(
        self,
        state: Any,
        context: Mapping[str, Any],
        observe: Observer | None = None,
        masks: Callable[[], Sequence[Tensor]] | None = None,
    ) -> Any:
        """`masks` gives the masks of dropout, one for each sub-layer; without it they are drawn here."""
        drawn = masks() if masks is not None and self.dropout.is_active else [None] * len(self.places)
        for sublayer, site, keywords, mask in zip(self.sublayers, self.sites, self.keywords, drawn, strict=True):
            read = site.read(state)
            if not isinstance(sublayer, Sublayer) and _is_part_of(read, state):
                read = read.clone()
            branch = sublayer(read, **keywords.choose(context))
            if isinstance(branch, tuple) and branch:
                branch = branch[0]  # attention modules return (output, weights)
            if not isinstance(branch, Tensor) or branch.shape != read.shape:
                raise _wrong_branch(keywords.name, branch, read)
            branch = self.dropout(branch) if mask is None else branch * mask.to(branch.dtype)
            if observe is not None:
                observe(site, state, branch)
            state = site.write(state, branch)
        return state


class Stack(nn.Module):
    def __init__(
        self,
        layers: Iterable[Iterable[nn.Module]],
        *,
        norm: NormOptions | Mapping[str, Any] | Literal["layer", "rms"] = "layer",
        roles: Mapping[str, RoleOf] | None = None,
        **options: Any,
    ) -> None:
        """Build a stack of layers with a residual scheme.

        layers: the layers, each with its sub-layers: lists, `nn.ModuleList`, `nn.Sequential` or generators of modules
            that map (…, model_dim) to the same shape. If a sub-layer returns a tuple, its first element is used.
        norm: the kind of norm, or its options: {"kind": "rms", "eps": 1e-6}.
        roles: the roles of weight matrices in modules that are not Lamina's, as {"*.q_proj": "query", …}, matched with
            `<layer>.<sub-layer>.<path>`. A fused matrix has several, {"*.in_proj_weight": ("query", "key", "value")},
            with the number of output channels of each where these differ, {"*.qkv": {"query": 64, "key": 16, …}}. The
            role "other" is for what neither reads the stream nor writes the branch. Weights are (outputs, inputs), or
            transposed in `Conv1D` of transformers. In a module whose forward has an argument `memory`, keys and values
            are computed from that. `fold` requires that a sub-layer uses its input through matrices with roles only.
        options: the options of `StackOptions` (model_dim, residual, dropout, …) and those of the scheme.
        """
        super().__init__()
        sublayers = read_layers(layers)
        if not isinstance(norm, NormOptions):
            norm = NormOptions.read({"kind": norm} if isinstance(norm, str) else norm, where="norm")
        own = {name: value for name, value in options.items() if name in StackOptions.model_fields}
        self.options = StackOptions.read({**own, "norm": norm}, where="Stack")
        num_sublayers = sum(len(layer) for layer in sublayers)
        part_of, other = self.options.part_of, self.options.other_num_layers
        self.shape = Shape(self.options.model_dim, len(sublayers), num_sublayers, part_of, other)
        scheme_options = {name: value for name, value in options.items() if name not in own}
        self.residual = schemes.build(self.options.residual, self.shape, norm, scheme_options)
        self.checkpoint_layers = self.options.checkpoint_layers
        built = [
            Layer(layer, [self.residual.site(place) for place in places], places, self.options.dropout)
            for layer, places in zip(sublayers, places_of(sublayers), strict=True)
        ]
        self.layers = cast(Sequence[Layer], nn.ModuleList(built))
        if self.residual.differs_in_decoder and "part_of" not in own:
            self._refuse_cross_attention()
        for place, sublayer, _ in self._sublayers():
            for name in sublayer.slots if isinstance(sublayer, Sublayer) else ():
                slot = self.residual.slot(place, name)
                if slot is not None:
                    setattr(sublayer, name, slot)
        self._roles = dict(roles or {})
        self._keywords = sorted({name for layer in self.layers for each in layer.keywords for name in each.names})
        self._initialise_once(is_given="init" in own)

    def _refuse_cross_attention(self) -> None:
        for place, _, _ in self._sublayers():
            if place.kind == "cross-attention":
                raise UserError(
                    f"{place} makes this stack a decoder, for which {self.residual.name} has other constants than for "
                    "a single stack: give part_of='decoder' and other_num_layers, the depth of the encoder, or "
                    "part_of='single'"
                )

    def _initialise_once(self, is_given: bool) -> None:
        init = self.options.init
        if init is None:
            self._by_role()  # raises if the roles are wrong
            return
        if self._roles and not is_given:
            raise UserError(
                "roles are given, so init must be given too: init=None keeps these weights, trained or not, and "
                f"init={init!r} initialises them again"
            )
        if is_given or self.residual.changes_initialisation:
            self._require_roles()
        self._initialise(init, ())

    def _require_roles(self) -> None:
        """Raise if there are weights that an initialisation would leave as they are, because their role is unknown."""
        for place, names in self._by_role().without_role.items():
            raise UserError(
                f"{place}: the role of {names[0]} is not known, so it cannot be initialised as {self.residual.name} or "
                f"init requires; give roles={{{names[0]!r}: …}} ({OTHER!r} leaves it as it is), or init=None to keep "
                "all weights as they are"
            )

    def _by_role(self) -> RoleMatrices:
        foreign = [(place, sublayer) for place, sublayer, _ in self._sublayers() if not isinstance(sublayer, Sublayer)]
        return matrices_by_role(foreign, self._roles, self.shape.model_dim)

    def _matrices(self) -> list[tuple[Matrix, ...]]:
        """The matrices of every sub-layer, also those that it shares with another one."""
        by_place = self._by_role().by_place
        return [
            declared_matrices(sublayer) if isinstance(sublayer, Sublayer) else by_place.get(place, ())
            for place, sublayer, _ in self._sublayers()
        ]

    @property
    def entries(self) -> list[StackEntry]:
        """The sub-layers with their sites and matrices; a matrix that several share is listed with the first.

        Computed at each access, because sharding replaces parameters.
        """
        seen: set[int] = set()
        entries = []
        for (place, _, site), matrices in zip(self._sublayers(), self._matrices(), strict=True):
            entries.append(StackEntry(place, site, [each for each in matrices if id(each.parameter) not in seen]))
            seen.update(id(each.parameter) for each in matrices)
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
        masks = self._new_masks(x)
        for layer in self.layers:
            count = len(layer.places)
            if recompute:
                drawn = None if masks is None else masks.to_be_drawn(count)
                state = checkpoint(layer, state, context, None, drawn, use_reentrant=False)
            else:
                state = layer(state, context, observe, None if masks is None else partial(masks.take, count))
        return self.residual.close(state)

    def _new_masks(self, x: Tensor) -> MaskSequence | None:
        """The masks of dropout on the outputs of the sub-layers; None if there is none, or torch's own is used."""
        is_compiled = any(layer._compiled_call_impl is not None for layer in self.layers)
        active = [layer.dropout for layer in self.layers if layer.dropout.is_active]
        if not active or is_compiled or not MaskSequence.can_draw_for(x):
            return None
        return MaskSequence(active[0], x, self.shape.num_sublayers)

    def initialise(self, init: str, embeddings: Iterable[Matrix] = ()) -> None:
        """Draw the base initialisation of all matrices, which the scheme then changes."""
        self._require_roles()
        self._initialise(init, embeddings)

    @torch.no_grad()
    def _initialise(self, init: str, embeddings: Iterable[Matrix]) -> None:
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
        self._check_foldable()
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

    def _check_foldable(self) -> None:
        """Raise where a matrix that folding changes is not known, or shared with another sub-layer."""
        without_role = self._by_role().without_role
        for entry, matrices in zip(self.entries, self._matrices(), strict=True):
            changed, every = (
                [each for each in found if getattr(each, self.residual.fold_changes)]
                for found in (entry.matrices, matrices)
            )
            if len(changed) < len(every):
                raise UserError(f"{entry.place} cannot be folded: it shares a matrix with another sub-layer")
            if not changed or entry.place in without_role:
                name = without_role.get(entry.place, ["of its matrices"])[0]
                raise UserError(
                    f"{entry.place} cannot be folded: the role of {name} is not known; give its roles with roles={{…}}"
                )

    def undecayed_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that the scheme excludes from weight decay."""
        for entry in self.entries:
            yield from entry.site.undecayed()

    def _check(self, x: Tensor, context: Mapping[str, Any]) -> None:
        if not x.is_floating_point():
            kind = str(x.dtype).removeprefix("torch.")
            raise UserError(f"the stack's input must be vectors of floating-point numbers, not {kind}; embed ids first")
        if x.shape[-1] != self.shape.model_dim:
            raise UserError(f"the stack is {self.shape.model_dim} wide, but its input has {x.shape[-1]} channels")
        for name in context:
            if name not in self._keywords:
                raise unknown("keyword for the sub-layers", name, self._keywords)
        for layer in self.layers:
            for keywords in layer.keywords:
                keywords.require(context)


def _is_part_of(read: Tensor, state: Any) -> bool:
    """Whether a tensor is one of the streams of a state."""
    return any(read is part for part in state) if isinstance(state, tuple) else read is state


def _wrong_branch(name: str, branch: Any, read: Tensor) -> UserError:
    if not isinstance(branch, Tensor):
        kind = type(branch).__name__
        return UserError(f"{name} returned a {kind}, not a tensor or a tuple that starts with one")
    return UserError(f"{name} turned {tuple(read.shape)} into {tuple(branch.shape)}; a branch must keep the shape")
