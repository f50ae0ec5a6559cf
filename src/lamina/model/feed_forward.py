"""The position-wise feed-forward sub-layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.model.kernels.dropout import Dropout
from lamina.model.sublayer import Sublayer
from lamina.residual.base import Matrix

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "linear"]
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "swiglu": F.silu,
}


class FeedForward(Sublayer):
    """outer(φ(inner(x))), φ ReLU, GELU or SiLU; for SwiGLU outer(SiLU(gate(x)) ⊙ inner(x))."""

    kind = "feed-forward"
    slots = ("slot", "activation_slot")
    activation_slot: nn.Module
    """The module before the activation."""

    def __init__(
        self, dim: int, inner_dim: int, *, activation: Activation = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.function = FUNCTIONS[activation]
        self.inner = nn.Linear(dim, inner_dim, bias=bias)
        self.gate = nn.Linear(dim, inner_dim, bias=bias) if activation == "swiglu" else None
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(inner_dim, dim, bias=bias)

    def matrices(self) -> Iterator[Matrix]:
        yield Matrix("inner", self.inner.weight, self.inner.bias, reads_stream=True)
        if self.gate is not None:
            yield Matrix("gate", self.gate.weight, self.gate.bias, reads_stream=True)
        yield Matrix("outer", self.outer.weight, self.outer.bias, writes_branch=True)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner(x)  # (tokens, inner_dim)
        activated = inner if self.gate is None else self.gate(x)
        activated = self.function(self.activation_slot(activated))
        active = activated if self.gate is None else activated * inner
        return self.outer(self.slot(self.dropout(active)))  # (tokens, dim)


class LinearFeedForward(Sublayer):
    """A single matrix: the feed-forward block of ResiDual's analysis (Xie et al. 2023, section 3.1)."""

    kind = "feed-forward"

    def __init__(self, dim: int, *, bias: bool = True) -> None:
        super().__init__()
        self.outer = nn.Linear(dim, dim, bias=bias)

    def matrices(self) -> Iterator[Matrix]:
        yield Matrix("outer", self.outer.weight, self.outer.bias, reads_stream=True, writes_branch=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.slot(x))
