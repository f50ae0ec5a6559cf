"""Pre-LN: a norm before every sub-layer, and none on the stream.

    x ← x + f(LN(x))                                end: LN(x)

Xiong et al. 2020, On Layer Normalization in the Transformer Architecture; Baevski & Auli 2019; Wang et al. 2019.

    x ──┬──► LN ──► f ──►(+)──► x
        └─────────────────┘

Gradients reach every layer and no warm-up is needed, but the stream grows, so that higher layers change it less.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from lamina.residual.base import Place, Placement, SchemeOptions, Shape, SingleStream, Site
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class PreLN(SingleStream):
    placement: ClassVar[Placement] = "pre"
    colour = "#0072B2"
    # Xiong et al., Theorem 1; our runs in docs/experiments.md; Liu et al., Corollary 1
    avoids = frozenset({"vanishing", "learning-rate", "amplification"})

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.final_norm = self.new_norm()

    def site(self, place: Place) -> Site[Tensor]:
        return PreLNSite(self.new_norm())

    def close(self, state: Tensor) -> Tensor:
        return self.final_norm(state)


class PreLNSite(Site[Tensor]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: Tensor) -> Tensor:
        return self.norm(state)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return state + branch


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + f(p.norm(l, s)(x))
    return p.end_norm()(x)
