"""The stack: one loop over layers, in which the residual scheme alone decides what is read and what is kept.

`Stack` takes any modules as sub-layers, Lamina's own or other people's:

    stack = Stack([[attention, feed_forward], …], model_dim=512, residual="b2t")
    y = stack(x, **context)     # each keyword goes to the sub-layers whose forward names it
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina import residual as schemes
from lamina.errors import UserError, unknown
from lamina.model.keywords import Keywords
from lamina.model.modules import module_list
from lamina.model.roles import declared_matrices, matrices_by_role
from lamina.model.start import start_matrix
from lamina.residual.base import Matrix, Observer, Part, Place, Role, Shape, Site
from lamina.residual.norm import NormOptions


class Layer(nn.Module):
    """A few sub-layers with their sites: the unit of activation checkpointing, sharding and compiling."""

    def __init__(
        self, sublayers: Sequence[nn.Module], sites: Sequence[Site[Any]], places: Sequence[Place], dropout: float
    ) -> None:
        super().__init__()
        self.sublayers, self.sites, self.places = module_list(sublayers), module_list(sites), places
        self.dropout = nn.Dropout(dropout)
        self.keywords = [Keywords(sublayer, str(place)) for sublayer, place in zip(sublayers, places, strict=True)]

    def forward(self, state: Any, observe: Observer | None = None, **context: Any) -> Any:
        for sublayer, site, keywords in zip(self.sublayers, self.sites, self.keywords, strict=True):
            branch = sublayer(site.read(state), **keywords.choose(context))
            if not isinstance(branch, Tensor):
                raise UserError(
                    f"{keywords.name} returned a {type(branch).__name__}, not a tensor; "
                    "wrap it in a module that returns the branch alone"
                )
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
        model_dim: int,
        residual: str = schemes.DEFAULT,
        norm: NormOptions | Literal["layer", "rms"] = "layer",
        dropout: float = 0.0,
        roles: Mapping[str, Role] | None = None,
        init: str | None = "xavier",
        part_of: Literal["single", "encoder", "decoder"] = "single",
        other_num_layers: int = 0,
        checkpoint_layers: bool = False,
        **options: Any,
    ) -> None:
        """
        layers: a list of layers, each a list of modules that map (…, model_dim) to the same shape.
        roles: the roles of foreign weight matrices, as {"*.q_proj": "query", …}. Those get start values (`init`, then
            the scheme's); all other foreign weights are left alone.
        part_of, other_num_layers: for schemes that treat the two stacks of an encoder–decoder differently.
        checkpoint_layers: keep only what stands between layers and compute the rest again on the way back.
        options: the scheme's own.
        """
        super().__init__()
        if not layers or not all(len(layer) for layer in layers):
            raise UserError("a stack needs at least one layer, and each layer at least one sub-layer")
        norm = norm if isinstance(norm, NormOptions) else NormOptions.read({"kind": norm}, where="norm")
        num_sublayers = sum(len(layer) for layer in layers)
        self.shape = Shape(model_dim, len(layers), num_sublayers, part_of, other_num_layers)
        self.residual = schemes.build(residual, self.shape, norm, options)
        self.checkpoint_layers = checkpoint_layers
        self.layers = module_list(
            Layer(layer, [self.residual.site(place) for place in places], places, dropout)
            for layer, places in zip(layers, _places(layers), strict=True)
        )
        for place, sublayer, _ in self._sublayers():
            slot = self.residual.slot(place)
            if slot is not None and hasattr(sublayer, "slot"):
                sublayer.slot = slot
        self._roles = dict(roles or {})
        if init is not None:
            self.start(init)

    @property
    def parts(self) -> list[Part]:
        """The sub-layers as the scheme sees them. Found anew each time: sharding replaces parameters."""
        foreign = [(place, sublayer) for place, sublayer, _ in self._sublayers() if not declared_matrices(sublayer)]
        by_role = matrices_by_role(foreign, self._roles)
        return [
            Part(place, site, declared_matrices(sublayer) or by_role.get(place, ()))
            for place, sublayer, site in self._sublayers()
        ]

    def _sublayers(self) -> Iterator[tuple[Place, nn.Module, Site[Any]]]:
        for layer in self.layers:
            yield from zip(layer.places, layer.sublayers, layer.sites, strict=True)

    def forward(self, x: Tensor, **context: Any) -> Tensor:
        self._check(x, context)
        return self._run(x, None, context)

    def _run(self, x: Tensor, observe: Observer | None, context: dict[str, Any]) -> Tensor:
        state = self.residual.open(x)
        recompute = self.checkpoint_layers and torch.is_grad_enabled() and observe is None
        for layer in self.layers:
            if recompute:
                state = checkpoint(layer, state, use_reentrant=False, **context)
            else:
                state = layer(state, observe, **context)
        return self.residual.close(state)

    @torch.no_grad()
    def start(self, init: str, embeddings: Iterable[Matrix] = ()) -> None:
        """Draw the base start values of all matrices with a role, then let the scheme change them."""
        for part in self.parts:
            for matrix in part.matrices:
                start_matrix(matrix, self.residual.base_start or init)
        self.residual.initialise(self.parts, embeddings)

    @torch.no_grad()
    def calibrate(self, x: Tensor, mask: Tensor | None = None, **context: Any) -> Tensor:
        """Let the scheme look at one batch, if it wants to; `mask` is True at real positions. Returns the output.

        Runs in training mode and full precision, and leaves the random state as it was.
        """
        self._check(x, context)
        was_training = self.training
        devices = [x.device] if x.device.type == "cuda" else []
        with (
            self.residual.calibration(self.parts, mask) as observe,
            torch.random.fork_rng(devices=devices),
            torch.autocast(x.device.type, enabled=False) if x.device.type != "meta" else torch.no_grad(),
        ):
            self.train()
            output = self._run(x, observe, context)
        self.train(was_training)
        return output

    def fold(self) -> Stack:
        """A plain stack with the same outputs, from a scheme that can be folded."""
        scheme, options = self.residual.folded()
        for part in self.parts:
            if not any(matrix.reads_stream for matrix in part.matrices):
                raise UserError(f"{part.place} cannot be folded: give the roles of its matrices with roles={{…}}")
        sample = next(self.parameters())
        plain = Stack(
            [[copy.deepcopy(sublayer) for sublayer in layer.sublayers] for layer in self.layers],
            model_dim=self.shape.model_dim,
            residual=scheme,
            norm=self.residual.norm_options,
            dropout=self.layers[0].dropout.p,
            roles=self._roles,
            init=None,
            part_of=self.shape.role,
            other_num_layers=self.shape.other_num_layers,
            checkpoint_layers=self.checkpoint_layers,
            **options,
        ).to(sample.device, sample.dtype)
        with torch.no_grad():
            self.residual.fold_into(plain.residual, self.parts, plain.parts)
        return plain.train(self.training)

    def undecayed_parameters(self) -> Iterator[nn.Parameter]:
        """What the scheme wants kept out of weight decay."""
        for part in self.parts:
            yield from part.site.undecayed()

    def _check(self, x: Tensor, context: Mapping[str, Any]) -> None:
        if x.shape[-1] != self.shape.model_dim:
            raise UserError(f"the stack is {self.shape.model_dim} wide, but its input has {x.shape[-1]} channels")
        keywords = [each for layer in self.layers for each in layer.keywords]
        accepts_any = any(each.accepts_any for each in keywords)
        known = sorted({name for each in keywords for name in each.names})
        for name in context:
            if name not in known and not accepts_any:
                raise unknown("keyword for the sub-layers", name, known)
        for each in keywords:
            each.require(context)


def _places(layers: Sequence[Sequence[nn.Module]]) -> list[list[Place]]:
    numbered = [(number, at, module) for number, layer in enumerate(layers) for at, module in enumerate(layer)]
    places: list[list[Place]] = [[] for _ in layers]
    for index, (number, at, module) in enumerate(numbered):
        kind = getattr(module, "kind", None) or type(module).__name__
        places[number].append(Place(index, number, kind, first=at == 0, last=at == len(layers[number]) - 1))
    return places
