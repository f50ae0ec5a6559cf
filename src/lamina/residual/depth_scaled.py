"""Depth-scaled initialisation: post-LN whose higher layers have smaller initial weights.

    x ← LN(x + f(x))                                end: x

Zhang et al. 2019, Improving Deep Transformer with Depth-Scaled Initialization and Merged Attention; cited by
Takase et al. 2022, section 7.

    x ──┬──► f ──►(+)──► LN ──► x          initial matrices of layer l × l^-1/2
        └──────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from lamina.residual.base import Matrix, Place, SingleStream, Site, StackEntry
from lamina.residual.post_ln import PostLNSite
from lamina.residual.reference import Layers, Parameters


class DepthScaled(SingleStream):
    placement = "post"

    def site(self, place: Place) -> Site[Tensor]:
        return PostLNSite(self.new_norm())

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        for entry in entries:
            for matrix in entry.matrices:
                matrix.weight.mul_((entry.place.layer + 1) ** -0.5)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(x + f(x))
    return x
