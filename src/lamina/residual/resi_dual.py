"""ResiDual: a post-LN stream, and a second stream with the sum of all branches.

    x ← LN(x + f(x)),   r ← r + η·f(x)              r₀ = η·x₀; end: x + LN_dual(r)

Xie et al. 2023, ResiDual: Transformer with Dual Residual Connections, section 2.2.

    x ──┬──► f ─┬─►(+)──► LN ──► x
        └───────│───┘
    r ─────────(+)─────────────► r

The gradient reaches every branch through r, and through x the representation changes in every layer. LN_dual divides by
the scale of r, so η does not change the output; values below 1 keep the sum of a deep stack within half precision.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.residual.base import Place, Residual, SchemeOptions, Shape, Site
from lamina.residual.norm import NormOptions, normalise_in_own_precision
from lamina.residual.reference import Layers, Parameters


class ResiDual(Residual[tuple[Tensor, Tensor]]):
    class Options(SchemeOptions):
        dual_scale: float = Field(1.0, gt=0)
        """The scale η of the dual stream. The output does not depend on it."""
        dual_precision: Literal["fp32", "stream"] = "fp32"
        """The precision of the dual stream: always fp32, or that of the branches (`stream`)."""

    placement = "post"
    colour = "#E69F00"
    avoids = frozenset({"vanishing", "learning-rate", "collapse"})  # Theorem 3.1; docs/experiments.md; Theorem 3.6
    streams = ("x", "dual")
    options: Options

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        # LN(η·r) with eps·η² equals LN(r) with eps, bit for bit when η is a power of two.
        self.dual_norm = self.new_norm(eps_factor=self.options.dual_scale**2)

    def site(self, place: Place) -> Site[tuple[Tensor, Tensor]]:
        return ResiDualSite(self.new_norm(), self.options.dual_scale)

    def open(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.options.dual_scale * x.to(self._dual_dtype(x))

    def close(self, state: tuple[Tensor, Tensor]) -> Tensor:
        x, dual = state
        return x + normalise_in_own_precision(self.dual_norm, dual).to(x.dtype)

    def _dual_dtype(self, x: Tensor) -> torch.dtype:
        if self.options.dual_precision == "fp32":
            return torch.promote_types(x.dtype, torch.float32)
        if torch.is_autocast_enabled(x.device.type):
            return torch.get_autocast_dtype(x.device.type)
        return x.dtype


class ResiDualSite(Site[tuple[Tensor, Tensor]]):
    def __init__(self, norm: nn.Module, dual_scale: float) -> None:
        super().__init__()
        self.norm, self.dual_scale = norm, dual_scale

    def read(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0]

    def write(self, state: tuple[Tensor, Tensor], branch: Tensor) -> tuple[Tensor, Tensor]:
        x, dual = state
        return self.norm(x + branch), torch.add(dual, branch.to(dual.dtype), alpha=self.dual_scale)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    eta = p.option("dual_scale")
    r = eta * x
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            branch = f(x)
            x, r = p.norm(l, s)(x + branch), r + eta * branch
    return x + p.end_norm("dual_norm", eps_factor=eta**2)(r)
