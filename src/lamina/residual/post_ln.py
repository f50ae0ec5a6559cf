"""Post-LN: normalise after every sum.

    x ← LN(x + f(x))                                end: x

Vaswani et al. 2017, Attention Is All You Need; analysed by Xiong et al. 2020, On Layer Normalization in the
Transformer Architecture.

    x ──┬──► f ──►(+)──► LN ──► x
        └──────────┘

Strong when shallow; deep decoders lose their gradient at the norms after cross-attention and need a warm-up.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.residual.base import Place, Placement, SchemeOptions, Shape, SingleStream, Site
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class PostLN(SingleStream):
    class Options(SchemeOptions):
        input_scale: bool = False
        """Scale the stack's input per channel. Folding another scheme into this one leaves such a scale behind."""
        eps_factor: float = Field(1.0, gt=0)
        """Multiply the norms' epsilon. Folding another scheme into this one leaves such a factor behind."""

    placement: ClassVar[Placement] = "post"
    colour = "#D55E00"

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        scaled = getattr(options, "input_scale", False)
        self.input_scale = nn.Parameter(torch.ones(shape.model_dim)) if scaled else None

    def site(self, place: Place) -> Site[Tensor]:
        return PostLNSite(self.new_norm(getattr(self.options, "eps_factor", 1.0)))

    def open(self, x: Tensor) -> Tensor:
        return x if self.input_scale is None else x * self.input_scale


class PostLNSite(Site[Tensor]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: Tensor) -> Tensor:
        return state

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(state + branch)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    if getattr(p.options, "input_scale", False):
        x = x * p.of("input_scale")
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(x + f(x))
    return x
