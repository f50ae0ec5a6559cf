"""Marian in Hugging Face transformers."""

from __future__ import annotations

import torch

from decoding_peers import Group, Tokens, batches, pad
from lamina.model.options import ModelOptions, pair

EOS = 0


class HuggingFace:
    def __init__(self, options: ModelOptions, beam: int) -> None:
        from transformers import MarianMTModel

        self.model = MarianMTModel(marian_config(options)).eval()
        self.beam, self.padding = beam, self.model.config.pad_token_id
        self.decoder_layer = self.model.model.decoder.layers[0]

    @torch.inference_mode()
    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        outputs: list[Tokens] = []
        for sources in batches(group, batch_size):
            ids = pad(sources, EOS, self.padding)
            found = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != self.padding).long(),
                num_beams=self.beam,
                do_sample=False,
                use_cache=True,
                early_stopping=True,
                min_new_tokens=group.steps,
                max_new_tokens=group.steps,
            )
            outputs += found[:, 1:].tolist()
        return outputs


def marian_config(options: ModelOptions) -> object:
    from transformers import MarianConfig

    encoder_layers, decoder_layers = pair(options.num_layers)
    return MarianConfig(
        vocab_size=pair(options.vocab_size)[1],
        d_model=options.model_dim,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=options.num_heads,
        decoder_attention_heads=options.num_heads,
        encoder_ffn_dim=options.feed_forward_dim,
        decoder_ffn_dim=options.feed_forward_dim,
        activation_function="relu",
        scale_embedding=True,
        eos_token_id=EOS,
        pad_token_id=pair(options.vocab_size)[1] - 1,
        decoder_start_token_id=pair(options.vocab_size)[1] - 1,
        forced_eos_token_id=None,
    )


build = HuggingFace
