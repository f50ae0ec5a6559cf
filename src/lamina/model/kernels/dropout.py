"""Dropout whose masks are made from random bytes.

`nn.Dropout` on a CPU draws one random number per element, which takes longer than the matrix product before it. A byte
is enough: an element is dropped if its byte is among the lowest round(256·p). The scale uses the rounded p, so the mean
is preserved. Where rounding would change p or 1 − p by more than 2 %, two bytes are used.

The bytes come from torch's generator, as those of `nn.Dropout` do. The training loop seeds it at every step, so masks
are a function of (seed, step, process, call), and activation checkpointing recomputes a layer with the same masks. On
other devices, and in compiled code, torch has a fused kernel of its own, which is used with the same rounded p.

A stack draws the masks of many sub-layers at once (`MaskSequence`): in a narrow model a draw of its own for each takes
longer than its sub-layer's largest matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

TOLERANCE = 0.02
"""The largest relative change of p and 1 − p by rounding to a multiple of 1/256."""
AT_ONCE = 2**20
"""The number of elements for which a stack draws masks at once; more would only take memory."""


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
        return x * self.draw_masks(1, x.shape, x.dtype)[0]

    def draw_masks(
        self, count: int, shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator | None = None
    ) -> tuple[Tensor, ...]:
        """Masks on a CPU: 0 where elements are dropped, else 1 / (1 − p).

        One draw of n masks gives the same masks as n draws of one.
        """
        size = math.prod(shape)
        numbers = torch.empty(count, -(-size * self._words.itemsize // 8), dtype=torch.int64)
        numbers.random_(-(2**63), None, generator=generator)  # all 64 bits
        # In place, because a comparison whose result is not boolean is vectorised.
        words = numbers.view(self._words).ge_(self._lowest_kept)
        masks = words[:, :size].to(dtype).mul_(1 / (1 - self.rounded))
        return masks.reshape(count, *shape).unbind()

    def extra_repr(self) -> str:
        return f"p={self.p}"


class MaskSequence:
    """The masks of one pass through a stack, for the outputs of its sub-layers in their order.

    They are drawn from a generator of their own, which torch's seeds. So they depend neither on how many are drawn at
    once nor on what else is drawn in the meantime, and activation checkpointing draws those of a layer again.
    """

    def __init__(self, dropout: Dropout, like: Tensor, count: int) -> None:
        """`count` is the number of sub-layers, and `like` has the shape and type of their outputs."""
        self._dropout, self._shape, self._dtype, self._left = dropout, like.shape, like.dtype, count
        self._generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        self._at_once = max(1, AT_ONCE // max(1, like.numel()))
        self._drawn: list[Tensor] = []

    @staticmethod
    def can_draw_for(x: Tensor) -> bool:
        """Whether masks are drawn here: not where torch's own dropout is one kernel, nor under `torch.func`."""
        return not has_fused_dropout(x) and torch._C._functorch.peek_interpreter_stack() is None

    def take(self, count: int) -> Sequence[Tensor]:
        """The masks of the next `count` sub-layers."""
        if len(self._drawn) < count:
            number = max(count - len(self._drawn), min(self._left, self._at_once))
            self._drawn += self._draw(number)
            self._left -= number
        taken, self._drawn = self._drawn[:count], self._drawn[count:]
        return taken

    def to_be_drawn(self, count: int) -> Callable[[], Sequence[Tensor]]:
        """A function that draws the masks of the next `count` sub-layers, the same ones at every call."""
        state = self._generator.get_state()

        def draw() -> Sequence[Tensor]:
            self._generator.set_state(state)
            return self._draw(count)

        return draw

    def _draw(self, count: int) -> Sequence[Tensor]:
        return self._dropout.draw_masks(count, self._shape, self._dtype, self._generator)


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
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return dropout(scores.softmax(-1)) @ values
