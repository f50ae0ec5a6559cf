"""Siamese: a normalised and a plain stream with the same branches.

    u ← LN(u);  z = f(LN(u + LN(v)));  u ← u + z/√(2l);  v ← v + z
    u₀ = v₀ = x₀, l the layer from 1                end: LN(LN(u) + LN(v))

Li et al. 2026, SiameseNorm: Breaking the Barrier to Reconciling Pre/Post-Norm.

    u ──► LN ─┬──────────────────── z/√(2l) ──►(+)──► u
              └►(+)──► LN ──► f ──┬─────────────┘
    v ─┬► LN ───┘                 └──────────►(+)──► v
       └───────────────────────────────────────┘
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.norm import ExactFactor, NormOptions, is_half
from lamina.residual.reference import Layers, Parameters


class Siamese(Residual[tuple[Tensor, Tensor]]):
    placement = "both"
    streams = ("normalised", "plain")

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.first_norm, self.plain_norm, self.final_norm = self.new_norm(), self.new_norm(), self.new_norm()

    def site(self, place: Place) -> Site[tuple[Tensor, Tensor]]:
        factor = (2 * (place.layer + 1)) ** -0.5
        return SiameseSite(self.new_norm(), self.new_norm(), self.new_norm(), factor)

    def open(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.first_norm(x), x

    def close(self, state: tuple[Tensor, Tensor]) -> Tensor:
        normalised, plain = state
        return self.final_norm(normalised + self.plain_norm(plain))


class SiameseSite(ExactFactor, Site[tuple[Tensor, Tensor]]):
    """`next_norm` is the u ← LN(u) of the next sub-layer, or of the end, because `read` must not change the state."""

    def __init__(self, plain_norm: nn.Module, sum_norm: nn.Module, next_norm: nn.Module, factor: float) -> None:
        super().__init__()
        self.plain_norm, self.sum_norm, self.next_norm = plain_norm, sum_norm, next_norm
        self.set_factor(factor)

    def read(self, state: tuple[Tensor, Tensor]) -> Tensor:
        normalised, plain = state
        return self.sum_norm(normalised + self.plain_norm(plain))

    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        normalised, plain = state
        if is_half(normalised):
            total = torch.addcmul(normalised.float(), branch.float(), self.factor).to(normalised.dtype)
        else:
            total = torch.addcmul(normalised, branch, self.factor)
        return self.next_norm(total), plain + branch


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    u, v, normalise = x, x, p.end_norm("first_norm")
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            u = normalise(u)
            z = f(p.norm(l, s, "sum_norm")(u + p.norm(l, s, "plain_norm")(v)))
            u, v = u + z / (2 * (l + 1)) ** 0.5, v + z
            normalise = p.norm(l, s, "next_norm")
    return p.end_norm()(normalise(u) + p.end_norm("plain_norm")(v))
