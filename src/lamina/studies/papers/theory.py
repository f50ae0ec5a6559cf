"""The models that the papers' proofs are about: single stacks of plain sub-layers with random weights.

`theory` (Xiong et al. 2020, section 3.3): one head with q = k = 0, so attention is the mean over positions; no output
matrix; a feed-forward of width d; all entries N(0, 1/d); inputs N(0, I); no biases and no dropout. `theory-linear`
(Xie et al. 2023, section 3.1): feed-forward is one matrix without ReLU. `gaussian_stack` (their section 3.2): branches
are Gaussian vectors that do not depend on the stream.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.own import recording
from lamina.diagnosis.recording.records import StackRecord
from lamina.model.stack import Stack

TheoryLoss = Literal["squared", "linear"]


class MeanAttention(nn.Module):
    """f(x) = mean over positions of x Wᵀ: attention whose scores are all equal."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.value = _matrix(dim)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.value.T).mean(-2, keepdim=True).expand_as(x)


class TwoMatrices(nn.Module):
    """f(x) = W² relu(W¹ x)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inner, self.outer = _matrix(dim), _matrix(dim)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.inner.T).relu() @ self.outer.T


class OneMatrix(nn.Module):
    """f(x) = W x."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.outer = _matrix(dim)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.outer.T


class GaussianBranch(nn.Module):
    """f(x) ~ N(0, σ² I), whatever x is."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return (self.deviation * torch.randn(x.shape)).to(x)  # the same numbers in every precision


def _matrix(dim: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(dim, dim) / dim**0.5)


def theory_stack(residual: str, num_layers: int, dim: int, *, seed: int, linear: bool = False) -> Stack:
    """A stack of layers of attention and feed-forward."""
    torch.manual_seed(seed)
    feed_forward = OneMatrix if linear else TwoMatrices
    layers = [(MeanAttention(dim), feed_forward(dim)) for _ in range(num_layers)]
    return Stack(layers, model_dim=dim, residual=residual, init=None, dropout=0.0)


def gaussian_stack(residual: str, num_blocks: int, dim: int, *, deviation: float = 1.0, **options: Any) -> Stack:
    """A stack of blocks whose branches are Gaussian vectors; they are drawn from torch's random state."""
    blocks = [[GaussianBranch(deviation)] for _ in range(num_blocks)]
    return Stack(blocks, model_dim=dim, residual=residual, init=None, dropout=0.0, **options)


def gaussian_inputs(sequences: int, length: int, dim: int, *, seed: int) -> Tensor:
    """Inputs N(0, I) of shape (sequences, length, dim)."""
    return torch.randn(sequences, length, dim, generator=torch.Generator().manual_seed(10_000 + seed))


def run_theory(stack: Stack, inputs: Tensor, loss: TheoryLoss | None = None) -> StackRecord:
    """The record of a pass, and with a loss of the gradients. Targets are random.

    squared   ½ · the squared error
    linear    the product with the target: its gradient has one size, whatever the output is
    """
    with recording(stack) as found, torch.set_grad_enabled(loss is not None):
        output = stack(inputs)
        if loss is not None:
            target = gaussian_inputs(*inputs.shape, seed=1)
            value = 0.5 * (output - target).square() if loss == "squared" else output * target
            value.sum(-1).mean().backward()
    return found.stacks[0]


def squared_norm(x: Tensor) -> Tensor:
    """‖x‖² / d at every position."""
    return x.square().mean(-1)
