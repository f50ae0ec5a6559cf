"""Keel: post-LN with a large weight on the stream and another norm before the branch.

    x ← LN(α·x + f(LN(x)))                          α the number of sub-layers of the stack; end: x

Chen & Wei 2026, Post-LayerNorm Is Back: Stable, Expressive, and Deep.

    x ──┬──► LN ──► f ──►(+)──► LN ──► x
        └────── ×α ───────┘
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, SingleStream, Site
from lamina.residual.reference import Layers, Parameters


class Keel(SingleStream):
    placement = "both"

    def site(self, place: Place) -> Site[Tensor]:
        return KeelSite(self.new_norm(), self.new_norm(), float(self.shape.num_sublayers))


class KeelSite(Site[Tensor]):
    def __init__(self, norm: nn.Module, branch_norm: nn.Module, alpha: float) -> None:
        super().__init__()
        self.norm, self.branch_norm, self.alpha = norm, branch_norm, alpha

    def read(self, state: Tensor) -> Tensor:
        return self.branch_norm(state)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(torch.add(branch, state, alpha=self.alpha))


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    alpha = sum(len(layer) for layer in layers)
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(alpha * x + f(p.norm(l, s, "branch_norm")(x)))
    return x
