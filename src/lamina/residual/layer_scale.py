"""LayerScale: pre-LN whose branches are multiplied by a learned vector, initially near zero.

    x ← x + γ⊙f(LN(x))                              initially γ = 1e-4; end: LN(x)

Touvron et al. 2021, Going Deeper with Image Transformers.

    x ──┬──► LN ──► f ── ⊙γ ──►(+)──► x
        └───────────────────────┘
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.residual.base import Place, SchemeOptions, Site
from lamina.residual.pre_ln import PreLN, PreLNSite
from lamina.residual.reference import Layers, Parameters


class LayerScale(PreLN):
    class Options(SchemeOptions):
        start: float = Field(1e-4, gt=0)
        """The initial value of every channel of γ."""

    options: Options

    def site(self, place: Place) -> Site[Tensor]:
        return LayerScaleSite(self.new_norm(), torch.full((self.shape.model_dim,), self.options.start))


class LayerScaleSite(PreLNSite):
    def __init__(self, norm: nn.Module, scale: Tensor) -> None:
        super().__init__(norm)
        self.scale = nn.Parameter(scale)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return torch.addcmul(state, branch, self.scale)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + p.at(l, s, "scale") * f(p.norm(l, s)(x))
    return p.end_norm()(x)
