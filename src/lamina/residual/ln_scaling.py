"""LayerNorm scaling: pre-LN whose norms are divided by the square root of the depth.

    x ← x + f(LN(x)/√l)                             l the layer, from 1; end: LN(x)

Sun et al. 2025, The Curse of Depth in Large Language Models.

    x ──┬──► LN ── ÷√l ──► f ──►(+)──► x
        └────────────────────────┘
"""

from __future__ import annotations

from torch import Tensor, nn

from lamina.residual.base import Place, Site
from lamina.residual.norm import ExactFactor, is_half
from lamina.residual.pre_ln import PreLN, PreLNSite
from lamina.residual.reference import Layers, Parameters


class LNScaling(PreLN):
    def site(self, place: Place) -> Site[Tensor]:
        return ScaledSite(self.new_norm(), (place.layer + 1) ** -0.5)


class ScaledSite(ExactFactor, PreLNSite):
    def __init__(self, norm: nn.Module, factor: float) -> None:
        super().__init__(norm)
        self.set_factor(factor)

    def read(self, state: Tensor) -> Tensor:
        normalised = super().read(state)
        if is_half(normalised):
            return (normalised.float() * self.factor).to(normalised.dtype)
        return normalised * self.factor


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + f(p.norm(l, s)(x) / (l + 1) ** 0.5)
    return p.end_norm()(x)
