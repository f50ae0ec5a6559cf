"""B2T: post-LN with a connection from the bottom of each layer to its top.

    inner:  x ← LN(x + f(x))
    last:   x ← LN(x_in + x + f(x))                 x_in the layer's input; end: x

Takase et al. 2022, On Layer Normalizations and Residual Connections in Transformers, eq. 5.

    x_in ─┬─┬──► f ──►(+)──► LN ──┬──► f ──►(+)──► LN ──► x
          │ └──────────┘          └──────────┤
          └──────────────────────────────────┘

The connection bypasses every norm of the layer but the last, and so does the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from torch import Tensor, nn

from lamina.residual.base import Matrix, Place, Placement, Residual, SchemeOptions, Site, StackEntry
from lamina.residual.reference import Layers, Parameters


class B2T(Residual[tuple[Tensor, Tensor]]):
    class Options(SchemeOptions):
        scale_init: bool = False
        """Multiply the initial weight matrices by N^-1/2, as in later code of the authors."""

    placement: ClassVar[Placement] = "post"
    colour = "#009E73"
    avoids = frozenset({"vanishing", "collapse"})  # figures 3 and 5: weakened, not removed; as in post-LN
    streams = ("x", "layer_input")
    options: Options

    def site(self, place: Place) -> Site[tuple[Tensor, Tensor]]:
        return B2TLastSite(self.new_norm()) if place.last else B2TSite(self.new_norm())

    def open(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def close(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0]

    @property
    def changes_initialisation(self) -> bool:
        return self.options.scale_init

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        if self.options.scale_init:
            for entry in entries:
                for matrix in entry.matrices:
                    matrix.weight.mul_(self.shape.num_layers**-0.5)


class B2TSite(Site[tuple[Tensor, Tensor]]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0]

    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, layer_input = state
        return self.norm(x + branch), layer_input


class B2TLastSite(B2TSite):
    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, layer_input = state
        x = self.norm(layer_input + x + branch)
        return x, x


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        layer_input = x
        for s, f in enumerate(layer[:-1]):
            x = p.norm(l, s)(x + f(x))
        x = p.norm(l, len(layer) - 1)(layer_input + x + layer[-1](x))
    return x
