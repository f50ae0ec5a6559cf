"""CTranslate2 in single precision: what native code does with the same shape. Its weights are those of a Marian."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from decoding_peers import Group, Tokens, batches
from decoding_peers.hugging_face import EOS, marian_config
from lamina.model.options import ModelOptions, pair


class CTranslate2:
    decoder_layer = None

    def __init__(self, options: ModelOptions, beam: int) -> None:
        from ctranslate2 import Translator
        from ctranslate2.converters.transformers import MarianMTLoader
        from transformers import MarianMTModel

        spec = MarianMTLoader().get_model_spec(MarianMTModel(marian_config(options)).eval())
        words = [_word(number) for number in range(pair(options.vocab_size)[1] - 1)]  # it drops Marian's padding
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
        spec.config.eos_token = spec.config.decoder_start_token = _word(EOS)
        spec.config.unk_token = _word(1)
        spec.config.add_source_eos = False
        spec.validate()
        self.beam = beam
        with TemporaryDirectory() as folder:
            spec.save(folder)
            assert (Path(folder) / "model.bin").exists()
            self.translator = Translator(
                folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=torch.get_num_threads()
            )

    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        outputs: list[Tokens] = []
        for sources in batches(group, batch_size):
            found = self.translator.translate_batch(
                [[_word(number) for number in (*source, EOS)] for source in sources],
                beam_size=self.beam,
                min_decoding_length=group.steps,
                max_decoding_length=group.steps,
            )
            outputs += [[int(word[1:]) for word in each.hypotheses[0]] for each in found]
        return outputs


def _word(number: int) -> str:
    return f"w{number}"


build = CTranslate2
