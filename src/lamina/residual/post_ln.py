"""Post-LN: a norm after every residual sum.

    x ← LN(x + f(x))                                end: x

Vaswani et al. 2017, Attention Is All You Need; analysed by Xiong et al. 2020, On Layer Normalization in the
Transformer Architecture.

    x ──┬──► f ──►(+)──► LN ──► x
        └──────────┘

Good for shallow models; in deep decoders the gradient vanishes at the norms after cross-attention. Needs warm-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.residual.base import Folded, Place, Residual, SchemeOptions, Shape, SingleStream, Site, StackEntry
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class PostLN(SingleStream):
    class Options(SchemeOptions):
        input_scale: bool = False
        """Whether the stack's input is scaled per channel; results from folding another scheme into post-LN."""
        eps_factor: float = Field(1.0, gt=0)
        """A factor on the norms' ε; results from folding another scheme into post-LN."""

    placement = "post"
    options: Options
    colour = "#D55E00"

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.input_scale = nn.Parameter(torch.ones(shape.model_dim)) if self.options.input_scale else None

    def site(self, place: Place) -> Site[Tensor]:
        return PostLNSite(self.new_norm(self.options.eps_factor))

    def open(self, x: Tensor) -> Tensor:
        return x if self.input_scale is None else x * self.input_scale

    def folded(self) -> Folded:
        """The scheme itself, because it is plain already."""
        return Folded(self.name, self.options.model_dump())

    def fold_into(
        self, plain: Residual[Any], entries: Sequence[StackEntry], plain_entries: Sequence[StackEntry]
    ) -> None:
        plain.load_state_dict(self.state_dict())
        for entry, plain_entry in zip(entries, plain_entries, strict=True):
            plain_entry.site.load_state_dict(entry.site.state_dict())


class PostLNSite(Site[Tensor]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: Tensor) -> Tensor:
        return state

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(state + branch)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    if p.option("input_scale"):
        x = x * p.of("input_scale")
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s, eps_factor=p.option("eps_factor"))(x + f(x))
    return x
