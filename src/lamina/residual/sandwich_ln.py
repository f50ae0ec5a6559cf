"""Sandwich-LN: pre-LN with a second norm on the branch. Also known as peri-LN.

    x ← x + LN(f(LN(x)))                            end: LN(x)

Ding et al. 2021, CogView: Mastering Text-to-Image Generation via Transformers; Kim et al. 2025, Peri-LN.

    x ──┬──► LN ──► f ──► LN ──►(+)──► x
        └────────────────────────┘
"""

from __future__ import annotations

from torch import Tensor, nn

from lamina.residual.base import Place, Site
from lamina.residual.pre_ln import PreLN, PreLNSite
from lamina.residual.reference import Layers, Parameters


class SandwichLN(PreLN):
    aliases = ("peri-ln",)
    placement = "both"

    def site(self, place: Place) -> Site[Tensor]:
        return SandwichSite(self.new_norm(), self.new_norm())


class SandwichSite(PreLNSite):
    def __init__(self, norm: nn.Module, branch_norm: nn.Module) -> None:
        super().__init__(norm)
        self.branch_norm = branch_norm

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return state + self.branch_norm(branch)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + p.norm(l, s, "branch_norm")(f(p.norm(l, s)(x)))
    return p.end_norm()(x)
