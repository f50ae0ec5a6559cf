"""Mix-LN: the first layers are post-LN, the others pre-LN.

    layer < m:  x ← LN(x + f(x))                    m = ⌊N/4⌋
    layer ≥ m:  x ← x + f(LN(x))                    end: LN(x)

Li et al. 2024, Mix-LN: Unleashing the Power of Deeper Layers by Combining Pre-LN and Post-LN.

    x ──► post-LN layers ──► x ──► pre-LN layers ──► LN ──► x
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from lamina.errors import UserError
from lamina.residual.base import Place, SchemeOptions, Shape, Site
from lamina.residual.norm import NormOptions
from lamina.residual.post_ln import PostLNSite
from lamina.residual.pre_ln import PreLN, PreLNSite
from lamina.residual.reference import Layers, Parameters


class MixLN(PreLN):
    class Options(SchemeOptions):
        switch_layer: int | None = Field(None, ge=0)
        """The number m of post-LN layers; a quarter of the layers by default."""

    placement = "both"
    options: Options

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        chosen = self.options.switch_layer
        if chosen is not None and chosen > shape.num_layers:
            raise UserError(f"mix-ln: switch_layer is {chosen}, but the stack has only {shape.num_layers} layers")
        self.num_post = shape.num_layers // 4 if chosen is None else chosen

    def site(self, place: Place) -> Site[Tensor]:
        return PostLNSite(self.new_norm()) if place.layer < self.num_post else PreLNSite(self.new_norm())


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    m = p.option("switch_layer")
    m = len(layers) // 4 if m is None else m
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            norm = p.norm(l, s)
            x = norm(x + f(x)) if l < m else x + f(norm(x))
    return p.end_norm()(x)
