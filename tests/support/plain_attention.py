"""Attention of one sequence, written from its definition."""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.embedding import rotate

LENGTHS, MEMORY_LENGTHS = [4, 1, 3], [2, 5, 3]


def by_definition(attention: SelfAttention | CrossAttention, x: Tensor, keys_from: Tensor, *, causal: bool) -> Tensor:
    """One sequence."""
    size, group = attention.head_dim, attention.num_heads // attention.num_kv_heads
    q, k, v = attention.query(x), attention.key(keys_from), attention.value(keys_from)
    if getattr(attention, "rotary", False):
        q, k = (rotate(y.view(len(y), -1, size), torch.arange(len(y))).flatten(1) for y in (q, k))
    heads = []
    for head in range(attention.num_heads):
        own = slice(head * size, (head + 1) * size)
        shared = slice(head // group * size, (head // group + 1) * size)
        scores = q[:, own] @ k[:, shared].T / size**0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        heads.append(scores.softmax(-1) @ v[:, shared])
    return attention.output(torch.cat(heads, -1))
