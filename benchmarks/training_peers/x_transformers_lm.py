"""A language model of x-transformers, pre-LN."""

from __future__ import annotations

from torch import Tensor

from lamina.model.options import ModelOptions, pair
from training_peers import Padded
from training_peers.x_transformers import layer_options


class XTransformersLM(Padded):
    note = "dropout inside the feed-forward network instead of on the residual branch"

    def __init__(self, options: ModelOptions) -> None:
        from x_transformers import Decoder, TransformerWrapper

        self.model = TransformerWrapper(
            num_tokens=pair(options.vocab_size)[0],
            max_seq_len=options.max_length,
            emb_dropout=options.dropout,
            tie_embedding=True,
            attn_layers=Decoder(depth=pair(options.num_layers)[0], **layer_options(options)),
        )

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(target)


build = XTransformersLM
