"""Gradient norm by layer: ‖∂L/∂W‖ of the last feed-forward matrix of each layer (Xiong et al. 2020, figure 3 a, b).

The expected gradient is meant: call with the gradients of a loss that is a mean over a whole batch.
"""

from __future__ import annotations

from torch import Tensor

from lamina.model.stack import Stack


def gradient_by_layer(stack: Stack) -> list[float]:
    """The Frobenius norm of the gradient of the matrix that writes each layer's last branch."""
    return [_norm(part.matrices[-1].weight.grad) for part in stack.parts if part.place.last]


def _norm(gradient: Tensor | None) -> float:
    return 0.0 if gradient is None else gradient.norm().item()
