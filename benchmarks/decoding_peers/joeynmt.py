"""JoeyNMT's Transformer and search. It has no key-value cache: every step decodes the whole output again."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from decoding_peers import Group, Tokens, batches, pad
from decoding_peers.stand_ins import standing_in
from lamina.model.options import ModelOptions, pair

UNUSED = ("importlib_metadata", "torch.utils.tensorboard", "sentencepiece", "subword_nmt")


class JoeyNMT:
    def __init__(self, options: ModelOptions, beam: int) -> None:
        with standing_in(*UNUSED):
            from joeynmt.batch import Batch
            from joeynmt.model import build_model
            from joeynmt.search import search
            from joeynmt.vocabulary import Vocabulary

        specials = ("unk", "pad", "bos", "eos")
        names = {f"{name}_token": f"<{name}>" for name in specials} | {"sep_token": None, "lang_tags": []}
        ids = {f"{name}_id": at for at, name in enumerate(specials)}
        rest = [str(word) for word in range(len(specials), pair(options.vocab_size)[1])]
        words = Vocabulary(rest, SimpleNamespace(**names, **ids))
        sides = {
            side: {
                "type": "transformer",
                "num_layers": num_layers,
                "num_heads": options.num_heads,
                "embeddings": {"embedding_dim": options.model_dim, "scale": True},
                "hidden_size": options.model_dim,
                "ff_size": options.feed_forward_dim,
                "layer_norm": "post",
            }
            for side, num_layers in zip(("encoder", "decoder"), pair(options.num_layers), strict=True)
        }
        self.model = build_model({**sides, "tied_embeddings": True, "tied_softmax": True}, words, words).eval()
        self.beam, self.batch, self.find = beam, Batch, search
        self.decoder_layer = self.model.decoder.layers[0]

    @torch.inference_mode()
    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        end, padding = self.model.eos_index, self.model.pad_index
        outputs: list[Tokens] = []
        for sources in batches(group, batch_size):
            batch = self.batch(
                src=pad(sources, end, padding),
                src_length=torch.tensor([len(source) + 1 for source in sources]),
                src_prompt_mask=None,
                trg=None,
                trg_prompt_mask=None,
                indices=torch.arange(len(sources)),
                device=torch.device("cpu"),
                pad_index=padding,
                eos_index=end,
                is_train=False,
            )
            limits = {"min_output_length": group.steps, "max_output_length": group.steps}
            found, _, _ = self.find(self.model, batch, beam_size=self.beam, beam_alpha=1.0, **limits)
            outputs += found.astype(int).tolist()
        return outputs


build = JoeyNMT
