"""DLCL: each layer of a pre-LN stack reads a learned combination of all layers below it.

    layers as in pre-ln; layer l+1 reads Σ_{k=0..l} W[l,k]·z_k
    z₀ = x₀,  z_k = LN_k(output of layer k)         end: LN(Σ_{k=0..N} W[N,k]·z_k)

Wang et al. 2019, Learning Deep Transformer Models for Machine Translation; compared by Takase et al. 2022, section 7.

    z₀ ─────────────┬──────────────┐
    layer 1 ──► LN ─┴► z₁ ─┬───────┤
    layer 2 ──► LN ──► z₂ ─┴► Σ W ─┴──► layer 3

W[l,k] is initialised as 1/(l+1): the mean of all outputs so far.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Layers, Parameters


class DLCL(Residual[tuple[Tensor, ...]]):
    placement = "pre"
    streams = ("x", "layer_outputs")
    grows = True

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.weights = nn.Parameter(torch.ones(1))
        self.final_norm = self.new_norm()

    def site(self, place: Place) -> Site[tuple[Tensor, ...]]:
        if place.last:
            return DLCLLastSite(self.new_norm(), self.new_norm(), num_outputs=place.layer + 2)
        return DLCLSite(self.new_norm())

    def open(self, x: Tensor) -> tuple[Tensor, ...]:
        return combine(self.weights, (x,)), x

    def close(self, state: tuple[Tensor, ...]) -> Tensor:
        return self.final_norm(state[0])


class DLCLSite(Site[tuple[Tensor, ...]]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: tuple[Tensor, ...]) -> Tensor:
        return self.norm(state[0])

    def write(self, state: tuple[Tensor, ...], branch: Tensor) -> tuple[Tensor, ...]:
        x, *outputs = state
        return x + branch, *outputs


class DLCLLastSite(DLCLSite):
    def __init__(self, norm: nn.Module, output_norm: nn.Module, num_outputs: int) -> None:
        super().__init__(norm)
        self.output_norm = output_norm
        self.weights = nn.Parameter(torch.full((num_outputs,), 1 / num_outputs))

    def write(self, state: tuple[Tensor, ...], branch: Tensor) -> tuple[Tensor, ...]:
        x, *earlier = state
        outputs = (*earlier, self.output_norm(x + branch))
        return combine(self.weights, outputs), *outputs


def combine(weights: Tensor, outputs: tuple[Tensor, ...]) -> Tensor:
    """Σ_k W[k]·z_k, added one at a time, without a stacked copy of all outputs."""
    first, *rest = weights.unbind()
    total = outputs[0] * first
    for weight, output in zip(rest, outputs[1:], strict=True):
        total = torch.addcmul(total, output, weight)
    return total


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    z = [x]
    x = p.of("weights")[0] * z[0]
    for l, layer in enumerate(layers):
        last = len(layer) - 1
        for s, f in enumerate(layer):
            x = x + f(p.norm(l, s)(x))
        z.append(p.norm(l, last, "output_norm")(x))
        x = sum((w * z_k for w, z_k in zip(p.at(l, last, "weights"), z, strict=True)), 0 * x)
    return p.end_norm()(x)
