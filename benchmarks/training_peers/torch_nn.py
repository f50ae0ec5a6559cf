"""torch.nn.Transformer, with embeddings around it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lamina.model.options import ModelOptions, pair
from training_peers import Padded


class TorchTransformer(nn.Module):
    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        encoder_layers, decoder_layers = pair(options.num_layers)
        self.words = nn.Embedding(pair(options.vocab_size)[0], options.model_dim)
        self.dropout = nn.Dropout(options.dropout)
        self.transformer = nn.Transformer(
            options.model_dim,
            options.num_heads,
            encoder_layers,
            decoder_layers,
            options.feed_forward_dim,
            dropout=options.dropout,
            batch_first=True,
        )
        layers: list[Any] = [*self.transformer.encoder.layers, *self.transformer.decoder.layers]
        for layer in layers:  # one probability for all places is its only option
            layer.dropout.p = options.activation_dropout
            layer.self_attn.dropout = options.attention_dropout
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = options.attention_dropout
        self.register_buffer("positions", torch.randn(512, options.model_dim))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == 0
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=mask,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return hidden @ self.words.weight.T

    def _embed(self, ids: Tensor) -> Tensor:
        positions: Any = self.positions
        return self.dropout(self.words(ids) * math.sqrt(positions.shape[1]) + positions[: ids.shape[1]])


class TorchNN(Padded):
    def __init__(self, options: ModelOptions) -> None:
        self.model = TorchTransformer(options)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(source, target)


build = TorchNN
