"""ReZero with post-LN: gated branches, and a norm after the sum.

    x ← LN(x + a·f(x))                              initially a = 0, one scalar per layer; end: x

Liu et al. 2020, Understanding the Difficulty of Training Transformers, appendix E.

    x ──┬──► f ── ×a ──►(+)──► LN ──► x
        └────────────────┘
"""

from __future__ import annotations

from torch import Tensor, nn

from lamina.residual.re_zero import ReZero, ReZeroSite
from lamina.residual.reference import Layers, Parameters


class ReZeroPostLN(ReZero):
    placement = "post"

    def new_site(self, first: ReZeroSite | None) -> ReZeroSite:
        return GatedPostLNSite(first, self.new_norm())


class GatedPostLNSite(ReZeroSite):
    def __init__(self, first: ReZeroSite | None, norm: nn.Module) -> None:
        super().__init__(first)
        self.norm = norm

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(state + self.gated(branch))


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(x + p.at(l, 0, "gate") * f(x))
    return x
