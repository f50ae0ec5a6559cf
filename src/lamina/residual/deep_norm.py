"""DeepNorm: post-LN with the stream weighted by a constant and small initial branches.

    x ← LN(α·x + f(x))                              end: x

    single stack   α = (2N)^1/4           β = (8N)^-1/4
    encoder        α = 0.81(N⁴M)^1/16     β = 0.87(N⁴M)^-1/16
    decoder        α = (3M)^1/4           β = (12M)^-1/4

Wang et al. 2022, DeepNet: Scaling Transformers to 1,000 Layers; compared by Takase et al. 2022, section 7.

    x ──┬──► f ──►(+)──► LN ──► x
        └─── ×α ───┘

Initialisation: Xavier-normal, gain β for feed-forward, value and output matrices, gain 1 for query and key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lamina.residual.base import Folded, Matrix, Place, Residual, Shape, SingleStream, Site, StackEntry
from lamina.residual.post_ln import PostLNSite
from lamina.residual.reference import Layers, Parameters


def constants(shape: Shape) -> tuple[float, float]:
    """α and β, for N encoder and M decoder layers."""
    own, other = shape.num_layers, shape.other_num_layers
    if shape.role == "encoder":
        return 0.81 * (own**4 * other) ** (1 / 16), 0.87 * (own**4 * other) ** (-1 / 16)
    if shape.role == "decoder":
        return (3 * own) ** 0.25, (12 * own) ** -0.25
    return (2 * own) ** 0.25, (8 * own) ** -0.25


class DeepNorm(SingleStream):
    placement = "post"
    colour = "#56B4E9"
    avoids = frozenset({"amplification"})  # its bound on the update of the model
    folds = True
    fold_changes = "writes_branch"
    base_initialisation = "xavier"
    differs_in_decoder = True

    def site(self, place: Place) -> Site[Tensor]:
        return DeepNormSite(self.new_norm(), constants(self.shape)[0])

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        beta = constants(self.shape)[1]
        for entry in entries:
            for matrix in entry.matrices:
                nn.init.xavier_normal_(matrix.weight, gain=1.0 if matrix.role in ("query", "key") else beta)
                if matrix.bias is not None:
                    matrix.bias.zero_()

    def folded(self) -> Folded:
        return Folded("post-ln", {"eps_factor": constants(self.shape)[0] ** -2})

    def fold_into(
        self, plain: Residual[Any], entries: Sequence[StackEntry], plain_entries: Sequence[StackEntry]
    ) -> None:
        """LN(αx + f) = LN(x + f/α) with eps/α²: divide the matrices that write the branch."""
        alpha = constants(self.shape)[0]
        for entry, plain_entry in zip(entries, plain_entries, strict=True):
            plain_entry.site.load_state_dict(entry.site.state_dict())
            for matrix in plain_entry.matrices:
                if matrix.writes_branch:
                    matrix.weight.div_(alpha)
                    if matrix.bias is not None:
                        matrix.bias.div_(alpha)


class DeepNormSite(PostLNSite):
    def __init__(self, norm: nn.Module, alpha: float) -> None:
        super().__init__(norm)
        self.alpha = alpha

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(torch.add(branch, state, alpha=self.alpha))


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    n, m = p.shape.num_layers, p.shape.other_num_layers
    alpha = {"single": (2 * n) ** 0.25, "decoder": (3 * n) ** 0.25, "encoder": 0.81 * (n**4 * m) ** 0.0625}
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(alpha[p.shape.role] * x + f(x))
    return x
