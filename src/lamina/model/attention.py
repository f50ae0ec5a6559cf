"""Multi-head attention: self, causal and cross, with grouped key-value heads, on packed tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.cache import KeyValues, Memory
from lamina.model.embedding import BASE, rotate
from lamina.model.kernels.attention import attend_short, is_short
from lamina.model.kernels.dropout import Dropout, attend_with_dropout
from lamina.model.sequences import Sequences
from lamina.model.sublayer import Sublayer
from lamina.residual.base import Matrix


class Attention(Sublayer):
    """The base class of self- and cross-attention: the four matrices and the scores."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_matrix: bool = True,
        layer: int = 0,
    ) -> None:
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        if dim % num_heads:
            raise UserError(f"the width {dim} is not divisible by {num_heads} heads; change model_dim or num_heads")
        if num_heads % num_kv_heads:
            raise UserError(f"{num_heads} heads cannot share {num_kv_heads} key-value heads; change num_kv_heads")
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, dim // num_heads
        self.dropout, self.layer = Dropout(dropout), layer
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(dim, num_kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(dim, num_kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(dim, dim, bias=bias) if output_matrix else nn.Identity()

    def matrices(self) -> Iterator[Matrix]:
        reads_memory = self.kind == "cross-attention"
        has_output = isinstance(self.output, nn.Linear)
        yield Matrix("query", self.query.weight, self.query.bias, reads_stream=True)
        yield Matrix("key", self.key.weight, self.key.bias, reads_stream=not reads_memory)
        yield Matrix("value", self.value.weight, self.value.bias, not reads_memory, writes_branch=not has_output)
        if isinstance(self.output, nn.Linear):
            yield Matrix("output", self.output.weight, self.output.bias, writes_branch=True)

    def heads(self, projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:-1], -1, self.head_dim)  # (tokens, heads, head_dim)

    def attend(
        self,
        queries: Tensor,
        sequences: Sequences,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        causal: bool = False,
    ) -> Tensor:
        """Attention of queries (tokens, heads, head_dim) over keys and values (sentences, kv_heads, length,
        head_dim)."""
        grid = sequences.to_grid(queries)  # (rows, length, heads, head_dim)
        # Several rows may attend to one sentence (the beams of a search): they become further queries of that sentence.
        by_sentence = grid.reshape(keys.shape[0], -1, *grid.shape[2:])
        by_head = by_sentence.transpose(1, 2)  # (sentences, heads, queries, head_dim)
        if self.dropout.is_active:
            attended = attend_with_dropout(by_head, keys, values, mask, causal, self.dropout)
        else:
            grouped = self.num_heads != self.num_kv_heads
            attended = F.scaled_dot_product_attention(
                by_head, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=grouped
            )
        return sequences.from_grid(attended.transpose(1, 2).reshape(grid.shape))

    def attend_short(
        self,
        queries: Tensor,
        sequences: Sequences,
        keys: Tensor,
        values: Tensor,
        memory_sequences: Sequences,
        causal: bool = False,
    ) -> Tensor:
        """The same in training on short sequences; queries, keys and values are packed, each (tokens, dim)."""
        grid_of = sequences, memory_sequences, self.num_heads, causal
        return attend_short(queries, keys, values, *grid_of, self.dropout)

    def may_be_short(self, queries: Tensor, sequences: Sequences, memory_sequences: Sequences) -> bool:
        """Whether `attend_short` is to be used."""
        return self.num_heads == self.num_kv_heads and is_short(queries, sequences, memory_sequences)

    def project(self, attended: Tensor) -> Tensor:
        """The sub-layer's output from the attended values of all heads."""
        return self.output(self.slot(attended.flatten(1)))  # (tokens, dim)


class SelfAttention(Attention):
    """Self-attention, causal or bidirectional."""

    kind = "self-attention"

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        causal: bool = False,
        rotary: bool = False,
        rotary_base: float = BASE,
        **options: Any,
    ) -> None:
        super().__init__(dim, num_heads, **options)
        if rotary and self.head_dim % 2:
            raise UserError(
                f"rotary positions need an even head width, not {self.head_dim}; change model_dim or num_heads"
            )
        self.causal, self.rotary, self.rotary_base = causal, rotary, rotary_base

    def forward(self, x: Tensor, sequences: Sequences, cache: KeyValues | None = None) -> Tensor:
        queries, keys, values = self.query(x), self.key(x), self.value(x)
        if self.rotary:
            queries, keys = (
                rotate(self.heads(each), sequences.positions, self.rotary_base).flatten(1) for each in (queries, keys)
            )
        if cache is None and self.may_be_short(queries, sequences, sequences):
            return self.project(self.attend_short(queries, sequences, keys, values, sequences, self.causal))
        queries, keys, values = self.heads(queries), self.heads(keys), self.heads(values)
        if cache is None:
            # Padding is at the end, so the causal mask alone hides it from every real token.
            mask = None if self.causal else sequences.key_mask
            keys = sequences.to_grid(keys).transpose(1, 2)  # (sequences, kv_heads, length, head_dim)
            values = sequences.to_grid(values).transpose(1, 2)
        else:
            keys, values, mask = cache.extend(self.layer, keys, values)
        causal = self.causal and cache is None
        return self.project(self.attend(queries, sequences, keys, values, mask, causal=causal))


class CrossAttention(Attention):
    """Attention over the encoder's output, the memory."""

    kind = "cross-attention"

    def forward(
        self,
        x: Tensor,
        sequences: Sequences,
        memory: Tensor,
        memory_sequences: Sequences,
        cache: KeyValues | None = None,
    ) -> Tensor:
        queries = self.query(x)
        if cache is None and self.may_be_short(queries, sequences, memory_sequences):
            keys, values = self.key(memory), self.value(memory)
            return self.project(self.attend_short(queries, sequences, keys, values, memory_sequences))
        source = None if cache is None else cache.memory(self.layer)
        if source is None:
            source = self.read_memory(memory, memory_sequences)
            if cache is not None:
                cache.keep_memory(self.layer, source)
        return self.project(self.attend(self.heads(queries), sequences, source.keys, source.values, source.mask))

    def read_memory(self, memory: Tensor, sequences: Sequences) -> Memory:
        """The keys and values of the source."""
        keys, values = self.heads(self.key(memory)), self.heads(self.value(memory))
        keys, values = (sequences.to_grid(each).transpose(1, 2) for each in (keys, values))
        return Memory(keys, values, sequences.key_mask)
