"""DenseFormer: after every layer of a pre-LN stack, a learned average over all outputs so far.

    layers as in pre-ln; after layer i the stream is Σ_{j≤i} A[i,j]·x_j
    x_j = output of layer j before mixing, x₀ the input                     end: LN(x)

Pagliardini et al. 2024, DenseFormer: Enhancing Information Flow in Transformers via Depth Weighted Averaging.

    x₀ ──┬─► layer 1 ──► x₁ ─┬─► Σ A ──► layer 2 ──► x₂ ─┬─► Σ A ──►
         └───────────────────┴───────────────────────────┘

A is initialised as the identity, which is pre-LN.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.dlcl import DLCLSite, combine
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class DenseFormer(Residual[tuple[Tensor, ...]]):
    placement = "pre"
    streams = ("x", "layer_outputs")
    grows = True

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.final_norm = self.new_norm()

    def site(self, place: Place) -> Site[tuple[Tensor, ...]]:
        return (
            DenseFormerLastSite(self.new_norm(), num_outputs=place.layer + 2)
            if place.last
            else DLCLSite(self.new_norm())
        )

    def open(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, x

    def close(self, state: tuple[Tensor, ...]) -> Tensor:
        return self.final_norm(state[0])


class DenseFormerLastSite(DLCLSite):
    def __init__(self, norm: nn.Module, num_outputs: int) -> None:
        super().__init__(norm)
        self.weights = nn.Parameter(torch.eye(num_outputs)[-1].clone())

    def write(self, state: tuple[Tensor, ...], branch: Tensor) -> tuple[Tensor, ...]:
        x, *earlier = state
        outputs = (*earlier, x + branch)
        return combine(self.weights, outputs), *outputs


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    outputs = [x]
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = x + f(p.norm(l, s)(x))
        outputs.append(x)
        a = p.at(l, len(layer) - 1, "weights")
        x = sum((a[j] * output for j, output in enumerate(outputs)), 0 * x)
    return p.end_norm()(x)
