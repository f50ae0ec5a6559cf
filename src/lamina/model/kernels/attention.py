"""Attention of short sequences in training, as one function with a backward pass of its own.

Torch's attention kernel divides long sequences into blocks. Sequences of a few dozen tokens are one block, for which
plain products take half the time. Autograd would record some twenty operations for these, with the copies from packed
tokens to a grid of heads and back; here they are one. It keeps the attention weights for the backward pass, which is
why it is not used for long sequences.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd import Function

from lamina.model.kernels.conditions import may_fuse
from lamina.model.kernels.dropout import Dropout
from lamina.model.sequences import Sequences

LONGEST = 64
"""The largest number of queries or keys for which plain products are faster than torch's kernel."""
VECTOR = 16
"""Torch's softmax over fewer keys is not vectorised, so there are at least as many, some of them padding."""


def is_short(queries: Tensor, sequences: Sequences, memory_sequences: Sequences) -> bool:
    """Whether `attend_short` is to be used: for short sequences, where one function may replace single operations."""
    # The lengths come last: where a model is exported, they are symbols, and a comparison would bound them.
    return may_fuse(queries) and max(sequences.length, memory_sequences.length) <= LONGEST


def attend_short(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    sequences: Sequences,
    memory_sequences: Sequences,
    num_heads: int,
    causal: bool,
    dropout: Dropout,
) -> Tensor:
    """The attended values of packed queries, keys and values, each (tokens, dim).

    `sequences` are those of the queries, `memory_sequences` those of keys and values.
    """
    grid, mask = HeadGrid.of(sequences, memory_sequences, num_heads, causal, like=queries), None
    if dropout.is_active:
        rows, length, memory_length = len(grid.rows.is_real), sequences.length, memory_sequences.length
        (drawn,) = dropout.draw_masks(1, (rows, length, memory_length), queries.dtype)
        mask = F.pad(drawn, (0, grid.memory_rows.length - memory_length, 0, grid.rows.length - length))
    return ShortAttention.apply(grid, mask, queries, keys, values)  # type: ignore[no-untyped-call]


class HeadRows:
    """Where the heads of packed tokens stand in a grid (sequences · heads, length), and the tokens of that grid."""

    def __init__(self, sequences: Sequences, num_heads: int) -> None:
        count, self.length = sequences.num_sequences, max(VECTOR, sequences.length)
        within = sequences.slots - sequences.rows * sequences.length
        grid = (sequences.rows[:, None] * num_heads + torch.arange(num_heads)) * self.length + within[:, None]
        self.of_tokens = grid.flatten()  # (tokens · heads,)
        self.of_grid = torch.zeros(count * num_heads * self.length, dtype=torch.int64)  # padding copies the first token
        self.of_grid[self.of_tokens] = torch.arange(len(self.of_tokens))
        self.num_tokens = sequences.num_tokens
        counts = torch.from_numpy(sequences.counts).repeat_interleave(num_heads)
        self.is_real = torch.arange(self.length) < counts[:, None]  # (sequences · heads, length)
        self.is_full = bool(self.is_real.all())

    @staticmethod
    def of(sequences: Sequences, num_heads: int) -> HeadRows:
        """Those of a batch, which all layers share."""
        return sequences.keep((HeadRows, num_heads), lambda: HeadRows(sequences, num_heads))

    def split(self, packed: Tensor) -> Tensor:
        """(tokens, dim) → (sequences · heads, length, head_dim); padding holds any token."""
        heads = packed.reshape(len(self.of_tokens), -1).index_select(0, self.of_grid)
        return heads.view(len(self.is_real), self.length, -1)

    def merge(self, heads: Tensor) -> Tensor:
        """(sequences · heads, length, head_dim) → (tokens, dim)"""
        return heads.flatten(0, 1).index_select(0, self.of_tokens).view(self.num_tokens, -1)


class HeadGrid:
    """The scores of all heads: which queries and keys there are, and which keys a query may attend to."""

    def __init__(self, rows: HeadRows, memory_rows: HeadRows, causal: bool, dtype: torch.dtype) -> None:
        self.rows, self.memory_rows = rows, memory_rows
        self.hidden = self._hidden(causal, dtype)
        """-∞ where a query must not attend and else 0, in a shape that fits the scores."""
        self.real = None if rows.is_full else rows.is_real[:, :, None].to(dtype)  # (sequences · heads, queries, 1)

    @staticmethod
    def of(sequences: Sequences, memory_sequences: Sequences, num_heads: int, causal: bool, like: Tensor) -> HeadGrid:
        """That of a batch, which all layers share."""
        rows, memory_rows = HeadRows.of(sequences, num_heads), HeadRows.of(memory_sequences, num_heads)
        key = HeadGrid, memory_rows, causal, like.dtype
        return sequences.keep(key, lambda: HeadGrid(rows, memory_rows, causal, like.dtype))

    def _hidden(self, causal: bool, dtype: torch.dtype) -> Tensor:
        if causal:  # padding is at the end, so that this hides it from every real token
            return torch.full((self.rows.length, self.memory_rows.length), float("-inf"), dtype=dtype).triu_(1)
        if self.memory_rows.is_full:
            return torch.zeros(1, dtype=dtype)
        is_padding = ~self.memory_rows.is_real[:, None, :]  # (sequences · heads, 1, keys)
        return torch.zeros(is_padding.shape, dtype=dtype).masked_fill_(is_padding, float("-inf"))

    def weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The attention weights, (sequences · heads, queries, keys).

        Those of padding are 0, so that no gradient flows through it.
        """
        scale = queries.shape[-1] ** -0.5
        weights = torch.baddbmm(self.hidden, queries, keys.transpose(1, 2), alpha=scale).softmax(-1)
        return weights if self.real is None else weights * self.real

    def attend(self, mask: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The attended values of packed tokens, and the attention weights without dropout."""
        weights = self.weights(self.rows.split(queries), self.memory_rows.split(keys))
        dropped = weights if mask is None else weights * mask
        return self.rows.merge(torch.bmm(dropped, self.memory_rows.split(values))), weights


class ShortAttention(Function):
    """softmax(QKᵀ/√d)V of packed tokens; `mask` is a factor of every weight, that of its dropout, or None."""

    @staticmethod
    def forward(ctx: Any, grid: HeadGrid, mask: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        attended, weights = grid.attend(mask, queries, keys, values)
        ctx.grid = grid
        ctx.save_for_backward(mask, weights, queries, keys, values)
        return attended

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        grid: HeadGrid = ctx.grid
        mask, weights, *packed = ctx.saved_tensors
        if torch.is_grad_enabled():  # it will be differentiated again, so autograd has to see single operations
            attended, _ = grid.attend(mask, *packed)
            return None, None, *torch.autograd.grad(attended, packed, gradient, create_graph=True)
        own, memory = grid.rows, grid.memory_rows
        queries, keys, values = own.split(packed[0]), memory.split(packed[1]), memory.split(packed[2])
        by_attended = own.split(gradient)
        by_weights, dropped = torch.bmm(by_attended, values.transpose(1, 2)), weights
        if mask is not None:
            by_weights, dropped = by_weights * mask, weights * mask
        by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype)
        by_scores *= queries.shape[-1] ** -0.5
        by_queries = own.merge(torch.bmm(by_scores, keys))
        by_keys = memory.merge(torch.bmm(by_scores.transpose(1, 2), queries))
        by_values = memory.merge(torch.bmm(dropped.transpose(1, 2), by_attended))
        return None, None, by_queries, by_keys, by_values
