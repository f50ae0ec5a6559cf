"""LookLinear: post-LN whose feed-forward sub-layers are initially linear, by mirrored halves of their matrices.

    x ← LN(x + f(x))                                end: x

Balduzzi et al. 2017, The Shattered Gradients Problem; compared by Liu et al. 2020, section 5.3.

    x ──┬──► f ──►(+)──► LN ──► x          initially f = [V, −V]·ReLU([W; −W]·x) = V·W·x
        └──────────┘

Initialisation: the second half of the first matrix's rows is minus the first half, and so is the second half of the
second matrix's columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from lamina.residual.base import Matrix, Place, SingleStream, Site, StackEntry
from lamina.residual.post_ln import PostLNSite
from lamina.residual.reference import Layers, Parameters


class LookLinear(SingleStream):
    placement = "post"

    def site(self, place: Place) -> Site[Tensor]:
        return PostLNSite(self.new_norm())

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        for entry in entries:
            for matrix in entry.matrices:
                if matrix.role == "inner":
                    half = matrix.weight.shape[0] // 2
                    matrix.weight[half : 2 * half] = -matrix.weight[:half]
                elif matrix.role == "outer":
                    half = matrix.weight.shape[1] // 2
                    matrix.weight[:, half : 2 * half] = -matrix.weight[:, :half]


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(x + f(x))
    return x
