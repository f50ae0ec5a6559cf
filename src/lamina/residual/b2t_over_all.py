"""B2T over all norms: the connection also bypasses the layer's last norm. The paper shows that this is worse.

    inner:  x ← LN(x + f(x))
    last:   x ← x_in + LN(x + f(x))                 x_in the layer's input; end: x

Takase et al. 2022, On Layer Normalizations and Residual Connections in Transformers, section 5, footnote 1.

    x_in ─┬─┬──► f ──►(+)──► LN ──┬──► f ──►(+)──► LN ──►(+)──► x
          │ └──────────┘          └──────────┘            │
          └───────────────────────────────────────────────┘
"""

from __future__ import annotations

from torch import Tensor

from lamina.residual.b2t import B2T, B2TSite
from lamina.residual.base import Place, Site
from lamina.residual.reference import Layers, Parameters


class B2TOverAll(B2T):
    placement = "both"

    def site(self, place: Place) -> Site[tuple[Tensor, Tensor]]:
        return OverAllSite(self.new_norm()) if place.last else B2TSite(self.new_norm())


class OverAllSite(B2TSite):
    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, layer_input = state
        x = layer_input + self.norm(x + branch)
        return x, x


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        layer_input = x
        for s, f in enumerate(layer[:-1]):
            x = p.norm(l, s)(x + f(x))
        x = layer_input + p.norm(l, len(layer) - 1)(x + layer[-1](x))
    return x
