"""The layers of a rewired model: between them, the streams of the scheme travel concatenated on the last dimension.

x (…, dim) ─ open ─► [x │ dual] (…, 2·dim) ─ layer ─► [x │ dual] ─ layer ─► … ─ close ─► (…, dim)

A layer keeps its class as the base of its new one, so that hooks, gradient checkpointing and the recording of hidden
states find it as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from lamina.interop.rewiring.families import Arguments, Family
from lamina.residual.base import Observer, Residual, Site


class Streams:
    """The state of a scheme as one tensor. Its form is that of the state which the first layer opened last."""

    def __init__(self, residual: Residual[Any]) -> None:
        self.residual = residual
        self._is_single, self._shapes, self._dtypes = True, [torch.Size()], [torch.float32]

    def open(self, x: Tensor) -> Any:
        """The state before the first layer."""
        state = self.residual.open(x)
        tensors = self._tensors(state)
        self._is_single = isinstance(state, Tensor)
        self._shapes = [each.shape[x.dim() - 1 :] for each in tensors]
        self._dtypes = [each.dtype for each in tensors]
        return state

    def join(self, state: Any) -> Tensor:
        """The state as one tensor (…, all streams), in the highest precision of its parts."""
        flat = [
            each.flatten(each.dim() - len(shape))
            for each, shape in zip(self._tensors(state), self._shapes, strict=True)
        ]
        return flat[0] if len(flat) == 1 else torch.cat(flat, dim=-1)

    def split(self, joined: Tensor) -> Any:
        """The state of a tensor that `join` made."""
        parts = torch.split(joined, [shape.numel() for shape in self._shapes], dim=-1)
        if len(parts) > 1:
            parts = tuple(part.to(dtype) for part, dtype in zip(parts, self._dtypes, strict=True))
        tensors = tuple(torch.unflatten(part, -1, shape) for part, shape in zip(parts, self._shapes, strict=True))
        return tensors[0] if self._is_single else tensors

    def close(self, state: Any) -> Tensor:
        """The output of the last layer."""
        return self.residual.close(state)

    @staticmethod
    def _tensors(state: Any) -> list[Tensor]:
        return [state] if isinstance(state, Tensor) else list(state)


@dataclass
class Wiring:
    """What a rewired layer needs besides its own modules and sites."""

    family: Family
    streams: Streams
    opens: bool
    closes: bool
    observe: Observer | None = None
    """Called for every sub-layer while a scheme is calibrated."""


class StreamEnd(nn.Module):
    """Takes the place of a model's final norm: closes the streams."""

    def __init__(self, streams: Streams) -> None:
        super().__init__()
        self.streams = streams

    def forward(self, joined: Tensor) -> Tensor:
        return self.streams.close(self.streams.split(joined))


def rewire_layer(layer: nn.Module, sites: Sequence[Site[Any]], wiring: Wiring) -> None:
    """Give a layer its sites and a forward that follows the scheme; its norms are removed."""
    for sublayer in wiring.family.sublayers:
        parent, _, name = sublayer.norm.rpartition(".")
        delattr(layer.get_submodule(parent), name)
    layer.lamina_sites = nn.ModuleList(sites)
    layer.lamina_wiring = wiring  # type: ignore[assignment]
    kind: Any = type(layer)
    layer.__class__ = _rewired(kind)


@cache
def _rewired(kind: Any) -> Any:
    return type(f"Rewired{kind.__name__}", (kind,), {"forward": _forward, "own_forward": kind.forward})


def _forward(self: Any, hidden_states: Tensor, *positional: Any, **keywords: Any) -> Any:
    wiring: Wiring = self.lamina_wiring
    arguments = _by_name(type(self).own_forward, positional, keywords)
    streams = wiring.streams
    state = streams.open(hidden_states) if wiring.opens else streams.split(hidden_states)
    for sublayer, site in zip(wiring.family.sublayers, self.lamina_sites, strict=True):
        if sublayer.reads_memory and arguments.get("encoder_hidden_states") is None:
            continue  # a decoder that is used without encoder
        branch = sublayer.branch(self, site.read(state), arguments)
        if wiring.observe is not None:
            wiring.observe(site, state, branch)
        state = site.write(state, branch)
    return wiring.family.returns(streams.close(state) if wiring.closes else streams.join(state), arguments)


def _by_name(forward: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
    """The arguments of the layer's own forward, besides the hidden states."""
    names = [name for name in _parameters(forward) if name not in ("self", "hidden_states")]
    return dict(zip(names, positional, strict=False)) | keywords


@cache
def _parameters(forward: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(forward).parameters)
