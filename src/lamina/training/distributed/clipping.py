"""Clipping of the gradient, sharded or not, to a largest norm."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from lamina.training.distributed.parallel import full_tensor

_ADDED = 1e-6  # torch adds it to the norm, so that it never divides by zero


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float) -> float:
    """Scale the gradients so that their common norm is at most `limit`; returns the norm before.

    The same as `clip_grad_norm_`, which multiplies all gradients also where the factor is 1.
    """
    norm = get_total_norm([each.grad for each in parameters if each.grad is not None])
    value = full_tensor(norm).item()
    if not value + _ADDED <= limit:  # also if the norm is not a number
        clip_grads_with_norm_(parameters, limit, norm)
    return value
