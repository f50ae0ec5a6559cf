"""Fixup: no norms; scaled initialisation, a scalar gain per branch and a scalar bias before each matrix.

    x ← x + g·f(x + b)                              initially g = 1, b = 0; end: x

Zhang et al. 2019, Fixup Initialization: Residual Learning Without Normalization; compared by Liu et al. 2020,
section 5.3.

    x ──┬── +b ──► f ── ×g ──►(+)──► x
        └──────────────────────┘

Initialisation, from Xavier, with L sub-layers in the whole model: query, key, value × L^-1/6, attention output 0, first
feed-forward matrix × L^-1/2, second 0. A second bias is inside f, before its last matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from lamina.residual.base import Matrix, Place, SingleStream, Site, StackEntry
from lamina.residual.reference import Layers, Parameters


class Fixup(SingleStream):
    placement = "none"
    base_initialisation = "xavier"

    def site(self, place: Place) -> Site[Tensor]:
        return FixupSite()

    def slot(self, place: Place) -> nn.Module:
        return Shift()

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        sublayers_per_other_layer = {"encoder": 3, "decoder": 2, "single": 0}[self.shape.role]
        total = self.shape.num_sublayers + sublayers_per_other_layer * self.shape.other_num_layers
        for entry in entries:
            for matrix in entry.matrices:
                if matrix.role in ("query", "key", "value"):
                    matrix.weight.mul_(total ** (-1 / 6))
                elif matrix.role in ("inner", "gate"):
                    matrix.weight.mul_(total**-0.5)
                else:
                    matrix.weight.zero_()


class Shift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


class FixupSite(Site[Tensor]):
    def __init__(self) -> None:
        super().__init__()
        self.outer = Shift()
        self.gain = nn.Parameter(torch.ones(1))

    def read(self, state: Tensor) -> Tensor:
        return self.outer(state)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return torch.addcmul(state, branch, self.gain)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + p.at(l, s, "gain") * f(x + p.at(l, s, "outer.shift"))
    return x
