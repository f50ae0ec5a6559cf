"""Norms (layer or RMS, epsilon, bias), and computation in full precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

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


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast, which computes in the precision of the tensors."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
