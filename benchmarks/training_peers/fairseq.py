"""fairseq's Transformer."""

from __future__ import annotations

from torch import Tensor

from decoding_peers.fairseq import build_model
from lamina.model.options import ModelOptions
from training_peers import Padded


class Fairseq(Padded):
    def __init__(self, options: ModelOptions) -> None:
        dropouts = {"dropout": options.dropout, "attention_dropout": options.attention_dropout}
        self.model, words = build_model(options, **dropouts)
        self.padding = words.pad()

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        lengths = (source != self.padding).sum(1)
        return self.model(source, lengths, target)[0]


build = Fairseq
