"""Dropout whose masks are made from random bytes.

`nn.Dropout` on a CPU draws one random number per element, which takes longer than the matrix product before it. A byte
is enough: an element is dropped if its byte is among the lowest round(256·p). The scale uses the rounded p, so the mean
is preserved. Where rounding would change p or 1 − p by more than 2 %, two bytes are used.

The bytes come from torch's generator, as those of `nn.Dropout` do. The training loop seeds it at every step, so masks
are a function of (seed, step, process, call), and activation checkpointing recomputes a layer with the same masks. On
other devices, and in compiled code, torch has a fused kernel of its own, which is used with the same rounded p.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

TOLERANCE = 0.02
"""The largest relative change of p and 1 − p by rounding to a multiple of 1/256."""


class Dropout(nn.Module):
    """Sets elements to zero with probability p in training, and scales the others by 1 / (1 − p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        is_near = abs(round(p * 256) / 256 - p) <= TOLERANCE * min(p, 1 - p)
        self._words, levels = (torch.int8, 256) if is_near else (torch.int16, 65536)
        dropped = min(round(p * levels), levels - 1)
        self.rounded = dropped / levels
        """The probability that is used."""
        self._lowest_kept = dropped - levels // 2  # the words are signed

    @property
    def is_active(self) -> bool:
        """Whether elements are dropped now: in training, unless p is 0."""
        return self.training and self.rounded > 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_active:
            return x
        if has_fused_dropout(x):
            return F.dropout(x, self.rounded)
        return x * self.draw_mask(x)

    def draw_mask(self, like: Tensor) -> Tensor:
        """A mask in the shape of a tensor on a CPU: 0 where elements are dropped, else 1 / (1 − p)."""
        count = like.numel()
        numbers = torch.empty(-(-count * self._words.itemsize // 8), dtype=torch.int64)
        numbers.random_(-(2**63), None)  # all 64 bits
        words = numbers.view(self._words)[:count].view(like.shape)
        # In place, because a comparison whose result is not boolean is vectorised.
        return words.ge_(self._lowest_kept).to(like.dtype).mul_(1 / (1 - self.rounded))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def has_fused_dropout(x: Tensor) -> bool:
    """Whether torch's own dropout of this tensor is one kernel: on other devices than a CPU, and in compiled code."""
    return x.device.type != "cpu" or torch.compiler.is_compiling()


def attend_with_dropout(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, dropout: Dropout
) -> Tensor:
    """`F.scaled_dot_product_attention` with dropout on the attention weights.

    Torch's attention kernel for a CPU has no dropout: with it, torch computes the products below, with its own masks.
    """
    if has_fused_dropout(queries):
        probability, is_grouped = dropout.rounded, queries.shape[1] != keys.shape[1]
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=probability, is_causal=causal, enable_gqa=is_grouped
        )
    group = queries.shape[1] // keys.shape[1]
    if group > 1:
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(-2, -1)  # (sentences, heads, queries, keys)
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return dropout(scores.softmax(-1)) @ values
