"""OpenNMT-py's Transformer, which is pre-LN, and its translator."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from torch import nn

from decoding_peers import Group, Tokens, batches, pad
from decoding_peers.stand_ins import standing_in
from lamina.model.options import ModelOptions, pair

UNUSED = ("pyonmttok", "spacy", "fasttext", "ahocorasick", "rapidfuzz", "configargparse", "ctranslate2", "waitress")


class Words:
    """A vocabulary in which only the special words have names."""

    def __init__(self, size: int, specials: dict[str, int]) -> None:
        self.size, self.specials = size, specials

    def __len__(self) -> int:
        return self.size

    def lookup_token(self, word: str) -> int:
        return self.specials.get(word, 0)


class OpenNMT:
    def __init__(self, options: ModelOptions, beam: int) -> None:
        model, ids = build_model(options)
        from onmt.constants import DefaultTokens
        from onmt.translate import GNMTGlobalScorer, Translator

        num_words = pair(options.vocab_size)[1]
        self.end, self.padding = ids[DefaultTokens.EOS], ids[DefaultTokens.PAD]
        vocabularies = {"src": Words(num_words, ids), "tgt": Words(num_words, ids)}
        self.translator = partial(
            Translator,
            model.eval(),
            vocabularies | {"decoder_start_token": DefaultTokens.BOS},
            beam_size=beam,
            max_length_ratio=0,
            dump_beam="",
            global_scorer=GNMTGlobalScorer(0.0, 0.0, "none", "none"),
        )
        self.decoder_layer = model.decoder.transformer_layers[0]

    @torch.inference_mode()
    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        translator = self.translator(min_length=group.steps, max_length=group.steps)
        outputs: list[Tokens] = []
        for sources in batches(group, batch_size):
            lengths = torch.tensor([len(source) + 1 for source in sources])
            ids = pad(sources, self.end, self.padding).unsqueeze(-1)
            found = translator.translate_batch({"src": ids, "srclen": lengths}, attn_debug=False)
            outputs += [nbest[0].tolist() for nbest in found["predictions"]]
        return outputs


def build_model(
    options: ModelOptions, dropout: float = 0.0, attention_dropout: float = 0.0
) -> tuple[Any, dict[str, int]]:
    """The model, and the ids of its special words by their names."""
    with standing_in(*UNUSED), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onmt.translate  # noqa: F401
        from onmt.constants import DefaultTokens
        from onmt.decoders import TransformerDecoder
        from onmt.encoders import TransformerEncoder
        from onmt.models import NMTModel
        from onmt.modules import Embeddings

    specials = [DefaultTokens.UNK, DefaultTokens.PAD, DefaultTokens.BOS, DefaultTokens.EOS]
    ids = {word: at for at, word in enumerate(specials)}
    num_words, (encoder_layers, decoder_layers) = pair(options.vocab_size)[1], pair(options.num_layers)
    table = Embeddings(options.model_dim, num_words, ids[DefaultTokens.PAD], position_encoding=True, dropout=dropout)
    sizes = {
        "d_model": options.model_dim,
        "heads": options.num_heads,
        "d_ff": options.feed_forward_dim,
        "dropout": dropout,
        "attention_dropout": attention_dropout,
        "embeddings": table,
        "max_relative_positions": 0,
        "relative_positions_buckets": 0,
        "add_qkvbias": True,
    }
    encoder = TransformerEncoder(encoder_layers, **sizes)
    unused = ("copy_attn", "aan_useffn", "full_context_alignment", "alignment_layer", "alignment_heads")
    decoder = TransformerDecoder(decoder_layers, **sizes, self_attn_type="scaled-dot", **dict.fromkeys(unused))
    model = NMTModel(encoder, decoder)
    model.generator = nn.Linear(options.model_dim, num_words)
    model.generator.weight = table.word_lut.weight
    for parameter in model.parameters():  # it leaves its weights as they come from memory
        nn.init.normal_(parameter, std=options.model_dim**-0.5)
    return model, ids


build = OpenNMT
