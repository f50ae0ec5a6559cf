"""GPT-2 in Hugging Face transformers."""

from __future__ import annotations

from torch import Tensor

from lamina.model.options import ModelOptions, pair
from training_peers import Padded


class GPT2(Padded):
    def __init__(self, options: ModelOptions) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=pair(options.vocab_size)[0],
            n_positions=options.max_length,
            n_embd=options.model_dim,
            n_layer=pair(options.num_layers)[0],
            n_head=options.num_heads,
            n_inner=options.feed_forward_dim,
            activation_function=options.activation,
            resid_pdrop=options.dropout,
            embd_pdrop=options.dropout,
            attn_pdrop=options.attention_dropout,
        )
        self.model = GPT2LMHeadModel(config)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(input_ids=target, use_cache=False).logits


build = GPT2
