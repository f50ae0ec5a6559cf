"""Fixup: no norms; scaled initialisation, a scalar gain per branch, a scalar shift before each matrix and activation.

    x ← x + g·f(x + b)                              initially g = 1, b = 0
    end: g·(x + b) in an encoder, x + b in a decoder and in a single stack

Zhang et al. 2019, Fixup Initialization: Residual Learning Without Normalization; compared by Liu et al. 2020,
section 5.3.

    x ──┬── +b ──► f ── ×g ──►(+)──► x
        └──────────────────────┘

Initialisation, from Xavier, with L sub-layers in the whole model: query, key, value × L^-1/6, attention output 0, first
feed-forward matrix × L^-1/2, second 0, and an output table of its own 0. Inside f there are shifts before the
activation and before the last matrix, in Lamina's own sub-layers; other modules have the one before f only. The end is
as in the authors' program: the decoder's keys and values read the encoder's output, and the output table the decoder's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from lamina.residual.base import Matrix, Place, SchemeOptions, Shape, SingleStream, Site, StackEntry
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class Fixup(SingleStream):
    placement = "none"
    base_initialisation = "xavier"
    result_version = 2
    differs_in_decoder = True
    zero_output_table = True

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.final_shift = Shift()
        self.final_gain = nn.Parameter(torch.ones(1)) if shape.role == "encoder" else None

    def site(self, place: Place) -> Site[Tensor]:
        return FixupSite()

    def slot(self, place: Place, name: str) -> nn.Module:
        return Shift()

    def close(self, state: Tensor) -> Tensor:
        x = self.final_shift(state)
        return x if self.final_gain is None else x * self.final_gain

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
    x = x + p.of("final_shift.shift")
    return p.of("final_gain") * x if p.shape.role == "encoder" else x
