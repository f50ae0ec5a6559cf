"""Marian in Hugging Face transformers."""

from __future__ import annotations

from torch import Tensor

from decoding_peers.hugging_face import marian_config
from lamina.model.options import ModelOptions
from training_peers import Padded


class Marian(Padded):
    def __init__(self, options: ModelOptions) -> None:
        from transformers import MarianMTModel

        config = marian_config(options)
        config.dropout, config.attention_dropout = options.dropout, options.attention_dropout  # type: ignore[attr-defined]
        self.model = MarianMTModel(config)
        self.padding = self.model.config.pad_token_id

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        mask = (source != self.padding).long()
        return self.model(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits


build = Marian
