"""T-Fixup: no norms; the initialisation keeps the updates small instead.

    x ← x + f(x)                                    end: x

Huang et al. 2020, Improving Transformer Optimization Through Better Initialization; compared by Takase et al. 2022,
section 7.

    x ──┬──► f ──►(+)──► x
        └──────────┘

Initialisation, from Xavier: feed-forward, value and output matrices × 0.67·N^-1/4 (encoder) or × (9M)^-1/4 (decoder),
value matrices with gain 1 before; embeddings × (9N)^-1/4, the decoder's own table × (9M)^-1/4. The paper treats
encoder–decoders; here a single stack has the decoder's factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from lamina.residual.base import Matrix, Place, SingleStream, Site, StackEntry
from lamina.residual.reference import Layers, Parameters


class TFixup(SingleStream):
    placement = "none"
    base_initialisation = "xavier"

    def site(self, place: Place) -> Site[Tensor]:
        return PlainSite()

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        depth = self.shape.num_layers
        factor = 0.67 * depth**-0.25 if self.shape.role == "encoder" else (9 * depth) ** -0.25
        for entry in entries:
            for matrix in entry.matrices:
                if matrix.role == "value":
                    matrix.weight.mul_(2**0.5)  # the base initialisation has gain 1/√2 for q, k, v
                if matrix.role not in ("query", "key"):
                    matrix.weight.mul_(factor)
        for table in embeddings:
            table.weight.mul_((9 * depth) ** -0.25)


class PlainSite(Site[Tensor]):
    def read(self, state: Tensor) -> Tensor:
        return state

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return state + branch


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for layer in layers:
        for f in layer:
            x = x + f(x)
    return x
