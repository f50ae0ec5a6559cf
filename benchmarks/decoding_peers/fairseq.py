"""fairseq's Transformer and sequence generator.

Its configuration classes have defaults that Python 3.11 takes for mutable ones, unless they can be hashed: during the
import, every dataclass can be.
"""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from decoding_peers import Group, Tokens, batches, pad
from lamina.model.options import ModelOptions, pair


class Fairseq:
    def __init__(self, options: ModelOptions, beam: int) -> None:
        model, self.words = build_model(options)
        model.eval()
        model.load_state_dict(model.state_dict())  # its fused encoder layers take their weights on loading only
        model.make_generation_fast_()
        from fairseq.sequence_generator import SequenceGenerator

        self.generator = partial(SequenceGenerator, [model], self.words, beam_size=beam)
        self.decoder_layer = model.decoder.layers[0]

    @torch.inference_mode()
    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        limit = group.steps - 1  # the end comes on top
        generator = self.generator(max_len_b=limit, min_len=limit)
        outputs: list[Tokens] = []
        for sources in batches(group, batch_size):
            ids = pad(sources, self.words.eos(), self.words.pad())
            lengths = torch.tensor([len(source) + 1 for source in sources])
            found = generator.generate([], {"net_input": {"src_tokens": ids, "src_lengths": lengths}})
            outputs += [nbest[0]["tokens"].tolist() for nbest in found]
        return outputs


def build_model(options: ModelOptions, **further: Any) -> tuple[Any, Any]:
    """Model and vocabulary; what is given further are arguments of fairseq."""
    hashable = partial(dataclasses.dataclass, unsafe_hash=True)
    with mock.patch.object(dataclasses, "dataclass", hashable):
        import fairseq.sequence_generator  # noqa: F401
        from fairseq.data import Dictionary
        from fairseq.models.transformer import TransformerModel

    words = Dictionary()
    for word in range(len(words), pair(options.vocab_size)[1]):
        words.add_symbol(str(word))
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return TransformerModel.build_model(_arguments(options, further), task), words


def _arguments(options: ModelOptions, further: dict[str, Any]) -> Namespace:
    encoder_layers, decoder_layers = pair(options.num_layers)
    sizes: dict[str, Any] = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    for side in ("encoder", "decoder"):
        sizes[f"{side}_embed_dim"] = options.model_dim
        sizes[f"{side}_ffn_embed_dim"] = options.feed_forward_dim
        sizes[f"{side}_attention_heads"] = options.num_heads
    return Namespace(**sizes, **further, share_all_embeddings=True)


build = Fairseq
