"""An encoder and a decoder of x-transformers, post-LN, with one table for all words."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lamina.model.options import ModelOptions, pair
from training_peers import Padded


class XTransformers(Padded):
    note = "dropout inside the feed-forward network instead of on the residual branch; learned positions"

    def __init__(self, options: ModelOptions) -> None:
        from x_transformers import Decoder, Encoder, TransformerWrapper

        num_words, (encoder_layers, decoder_layers) = pair(options.vocab_size)[0], pair(options.num_layers)
        words: dict[str, Any] = {"num_tokens": num_words, "max_seq_len": 512, "emb_dropout": options.dropout}
        layers = layer_options(options) | {"pre_norm": False}
        encoder = TransformerWrapper(
            **words, attn_layers=Encoder(depth=encoder_layers, **layers), return_only_embed=True
        )
        decoder = TransformerWrapper(
            **words, attn_layers=Decoder(depth=decoder_layers, cross_attend=True, **layers), tie_embedding=True
        )
        decoder.token_emb = encoder.token_emb
        self.model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        mask = source != self.padding
        memory = self.model["encoder"](source, mask=mask, return_embeddings=True)
        return self.model["decoder"](target, context=memory, context_mask=mask)


def layer_options(options: ModelOptions) -> dict[str, Any]:
    return {
        "dim": options.model_dim,
        "heads": options.num_heads,
        "attn_dim_head": options.model_dim // options.num_heads,
        "ff_mult": options.feed_forward_dim / options.model_dim,
        "ff_dropout": options.dropout,
        "attn_dropout": options.attention_dropout,
        "attn_flash": True,
    }


build = XTransformers
