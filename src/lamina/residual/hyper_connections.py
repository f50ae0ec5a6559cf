"""Hyper-connections: several streams with learned weights for reading, writing and mixing.

    H ← A_rᵀH + b·f(LN(A_mᵀH))                      H₀ = n copies of x₀; end: LN(Σ streams)

Zhu et al. 2024, Hyper-Connections; here the static form.

    h₁ ─┐              ┌─ b₁ ─►(+)─► h₁
    h₂ ─┼─ A_m ► LN ► f┼─ b₂ ─►(+)─► h₂
    ⋮   │              └─ …     ▲
        └──────── A_r ──────────┘

Initially A_r = I, b = 1, and sub-layer k reads stream k mod n.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.norm import NormOptions, without_autocast
from lamina.residual.reference import Layers, Parameters


class HyperConnections(Residual[Tensor]):
    class Options(SchemeOptions):
        num_streams: int = Field(4, ge=1)
        """The number n of streams."""

    placement = "pre"
    streams = ("copies",)
    options: Options

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        self.final_norm = self.new_norm()

    def site(self, place: Place) -> Site[Tensor]:
        return HyperSite(self.new_norm(), self.options.num_streams, place.index % self.options.num_streams)

    def open(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-2).expand(*x.shape[:-1], self.options.num_streams, x.shape[-1])  # (…, streams, dim)

    def close(self, state: Tensor) -> Tensor:
        return self.final_norm(state.sum(-2))


class HyperSite(Site[Tensor]):
    def __init__(self, norm: nn.Module, num_streams: int, own_stream: int) -> None:
        super().__init__()
        self.norm = norm
        self.read_weights = nn.Parameter(torch.eye(num_streams)[own_stream].clone())  # A_m
        self.mix_weights = nn.Parameter(torch.eye(num_streams))  # A_r
        self.write_weights = nn.Parameter(torch.ones(num_streams))  # b

    def read(self, state: Tensor) -> Tensor:
        with without_autocast(state):
            return self.norm(self.read_weights @ state)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        with without_autocast(state):
            mixed = self.mix_weights.T @ state
        return mixed + self.write_weights.unsqueeze(-1) * branch.unsqueeze(-2)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    n = p.option("num_streams")
    h = [x] * n
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            a_m, a_r, b = (p.at(l, s, name) for name in ("read_weights", "mix_weights", "write_weights"))
            z = f(p.norm(l, s)(sum((a_m[i] * h[i] for i in range(n)), 0 * x)))
            h = [sum((a_r[i, j] * h[i] for i in range(n)), b[j] * z) for j in range(n)]
    return p.end_norm()(sum(h, 0 * x))
