"""A pre-LN language model in the fewest lines of torch: linear layers and `F.scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.model.options import ModelOptions, pair
from training_peers import Padded


class Block(nn.Module):
    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        dim = options.model_dim
        self.num_heads, self.dropped, self.attention_dropped = (
            options.num_heads,
            options.dropout,
            options.attention_dropout,
        )
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.attended, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, options.feed_forward_dim), nn.Linear(options.feed_forward_dim, dim)
        self.activation = {"gelu": F.gelu, "relu": F.relu}[options.activation]

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self._attend(self.norms[0](x)), self.dropped, self.training)
        return x + F.dropout(self.down(self.activation(self.up(self.norms[1](x)))), self.dropped, self.training)

    def _attend(self, x: Tensor) -> Tensor:
        parts = self.attended(x).chunk(3, -1)
        queries, keys, values = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in parts)
        dropped = self.attention_dropped if self.training else 0.0
        attended = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropped, is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(2))


class PlainModel(nn.Module):
    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.words = nn.Embedding(pair(options.vocab_size)[0], options.model_dim)
        self.positions = nn.Embedding(options.max_length, options.model_dim)
        self.blocks = nn.Sequential(*(Block(options) for _ in range(pair(options.num_layers)[0])))
        self.norm, self.dropout = nn.LayerNorm(options.model_dim), nn.Dropout(options.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        hidden: Any = self.norm(self.blocks(x))
        return hidden @ self.words.weight.T


class Plain(Padded):
    def __init__(self, options: ModelOptions) -> None:
        self.model = PlainModel(options)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(target)


build = Plain
