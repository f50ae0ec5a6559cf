"""Depth-scaled start values: post-LN whose higher layers start smaller.

    x ← LN(x + f(x))                                end: x

Zhang et al. 2019, Improving Deep Transformer with Depth-Scaled Initialization and Merged Attention; cited by
Takase et al. 2022, section 7.

    x ──┬──► f ──►(+)──► LN ──► x          matrices of layer l start × l^-1/2
        └──────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamina.residual.base import Matrix, Part, SchemeOptions
from lamina.residual.post_ln import PostLN, reference

__all__ = ["DepthScaled", "reference"]


class DepthScaled(PostLN):
    class Options(SchemeOptions):
        pass

    def initialise(self, parts: Sequence[Part], embeddings: Iterable[Matrix] = ()) -> None:
        for part in parts:
            for matrix in part.matrices:
                matrix.weight.mul_((part.place.layer + 1) ** -0.5)
