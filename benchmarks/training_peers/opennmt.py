"""OpenNMT-py's Transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from decoding_peers.opennmt import build_model
from lamina.model.options import ModelOptions
from training_peers import Padded


class OpenNMT(Padded):
    note = "pre-LN, which is its only scheme"

    def __init__(self, options: ModelOptions) -> None:
        self.model, ids = build_model(options, dropout=options.dropout, attention_dropout=options.attention_dropout)
        self.padding = ids["<blank>"]

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        lengths = (source != self.padding).sum(1)
        longer = F.pad(target, (0, 1), value=self.padding)  # it removes the last target token itself
        hidden, _ = self.model(source.unsqueeze(-1), longer.unsqueeze(-1), lengths)
        logits: Tensor = self.model.generator(hidden)
        assert logits.shape[:2] == torch.Size(target.shape)
        return logits


build = OpenNMT
