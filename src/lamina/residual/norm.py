"""Norms (layer or RMS, epsilon, bias), and computation in full precision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from lamina.options import Options


class NormOptions(Options):
    """The norm of a model."""

    kind: Literal["layer", "rms"] = "layer"
    """The kind of norm: `layer` subtracts the mean and divides by the standard deviation, `rms` divides by the root
    mean square."""
    eps: float = Field(1e-5, gt=0)
    """The ε added to the variance before the square root."""
    bias: bool = True
    """Whether a layer norm adds a learned bias; an RMS norm never does."""

    def build(self, dim: int, eps_factor: float = 1.0) -> nn.Module:
        """A norm over the last `dim` channels, gain 1 and bias 0."""
        eps = self.eps * eps_factor
        return nn.RMSNorm(dim, eps=eps) if self.kind == "rms" else nn.LayerNorm(dim, eps=eps, bias=self.bias)


def normalise_in_own_precision(norm: nn.Module, x: Tensor) -> Tensor:
    """`norm(x)` in the precision of x, even if the norm's weights are in a lower one."""
    weights = {name: weight.to(x.dtype) for name, weight in norm.named_parameters() if weight.dtype != x.dtype}
    return functional_call(norm, weights, (x,)) if weights else norm(x)


class ExactFactor(nn.Module):
    """The base class of modules with a constant `factor`, which stays in full precision in a half-precision module.

    It is a buffer and not a number, so that layers with different factors compile to one graph.
    """

    factor: Tensor

    def set_factor(self, factor: float) -> None:
        self.register_buffer("factor", torch.tensor(factor))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = self.factor
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if is_half(self.factor):
            self.factor = exact.to(self.factor.device)
        return self


def is_half(x: Tensor) -> bool:
    """Whether a tensor is in half precision."""
    return x.dtype.itemsize < 4


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast, which computes in the precision of the tensors."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
