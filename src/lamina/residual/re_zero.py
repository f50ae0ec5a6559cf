"""ReZero: every branch is multiplied by a learned gate that is initially zero; no norms.

    x ← x + a·f(x)                                  initially a = 0, one scalar per layer; end: x

Bachlechner et al. 2020, ReZero is All You Need; compared by Liu et al. 2020, section 5.3 and appendix E.

    x ──┬──► f ── ×a ──►(+)──► x
        └────────────────┘
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, Placement, SchemeOptions, Shape, SingleStream, Site
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class ReZero(SingleStream):
    placement: ClassVar[Placement] = "none"

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self._first: tuple[ReZeroSite, ...] = ()  # in a tuple, so that it is not registered as a submodule

    def site(self, place: Place) -> Site[Tensor]:
        site = self.new_site(None if place.first else self._first[0])
        if place.first:
            self._first = (site,)
        return site

    def new_site(self, first: ReZeroSite | None) -> ReZeroSite:
        return ReZeroSite(first)


class ReZeroSite(Site[Tensor]):
    """The first site of a layer has the gate and the others refer to it, so that it is saved and sharded once."""

    def __init__(self, first: ReZeroSite | None) -> None:
        super().__init__()
        if first is None:
            self.gate = nn.Parameter(torch.zeros(1))
        self._owner = () if first is None else (first,)

    def gated(self, branch: Tensor) -> Tensor:
        owner = self._owner[0] if self._owner else self
        return owner.gate * branch

    def read(self, state: Tensor) -> Tensor:
        return state

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return state + self.gated(branch)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for f in layer:
            x = x + p.at(l, 0, "gate") * f(x)
    return x
