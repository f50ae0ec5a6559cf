"""LayerNorm scaling: pre-LN whose norms are divided by the square root of the depth.

    x ← x + f(LN(x)/√l)                             l the layer, from 1; end: LN(x)

Sun et al. 2025, The Curse of Depth in Large Language Models.

    x ──┬──► LN ── ÷√l ──► f ──►(+)──► x
        └────────────────────────┘
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, Site
from lamina.residual.pre_ln import PreLN, PreLNSite
from lamina.residual.reference import Layers, Parameters


class LNScaling(PreLN):
    def site(self, place: Place) -> Site[Tensor]:
        return ScaledSite(self.new_norm(), (place.layer + 1) ** -0.5)


class ScaledSite(PreLNSite):
    factor: Tensor

    def __init__(self, norm: nn.Module, factor: float) -> None:
        super().__init__(norm)
        self.register_buffer("factor", torch.tensor(factor))  # a buffer, so that all layers compile to one graph

    def read(self, state: Tensor) -> Tensor:
        return super().read(state) * self.factor


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + f(p.norm(l, s)(x) / (l + 1) ** 0.5)
    return p.end_norm()(x)
