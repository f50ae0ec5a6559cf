"""B2T without norms: two constants limit the growth of the stream instead.

    inner:  x ← x + f(x)
    last:   x ← α·x_in + β·(x + f(x))               α = min(N/12, N^-0.15), β = d^-0.2; end: x

Takase et al. 2022, On Layer Normalizations and Residual Connections in Transformers, eq. 6–8.

    x_in ─┬─┬──► f ──►(+)──┬──► f ──►(+)── ×β ──►(+)──► x
          │ └──────────┘   └──────────┘           │
          └───────────────────────────────── ×α ──┘
"""

from __future__ import annotations

from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class B2TNoNorm(Residual[tuple[Tensor, Tensor]]):
    class Options(SchemeOptions):
        final_norm: bool = False
        """Whether the stack's output is normalised."""

    placement = "none"
    streams = ("x", "layer_input")
    options: Options

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.final_norm: nn.Module = self.new_norm() if self.options.final_norm else nn.Identity()

    def site(self, place: Place) -> Site[tuple[Tensor, Tensor]]:
        depth = self.shape.num_layers
        return NoNormLastSite(min(depth / 12, depth**-0.15), self.shape.model_dim**-0.2) if place.last else NoNormSite()

    def open(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def close(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return self.final_norm(state[0])


class NoNormSite(Site[tuple[Tensor, Tensor]]):
    def read(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0]

    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, layer_input = state
        return x + branch, layer_input


class NoNormLastSite(NoNormSite):
    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, layer_input = state
        x = self.alpha * layer_input + self.beta * (x + branch)
        return x, x


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    alpha = min(len(layers) / 12, len(layers) ** -0.15)
    beta = x.shape[-1] ** -0.2
    for layer in layers:
        layer_input = x
        for f in layer:
            x = x + f(x)
        x = alpha * layer_input + beta * x
    return p.end_norm()(x) if p.option("final_norm") else x
