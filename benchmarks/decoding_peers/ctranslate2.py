"""CTranslate2: what native code does with the same shape. Its weights are those of a Marian.

Batches run side by side, one on each thread, which is its fastest setting; a single sentence gets all threads.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from decoding_peers import Group, Tokens
from decoding_peers.hugging_face import EOS, marian_config
from lamina.model.options import ModelOptions, pair


class CTranslate2:
    decoder_layer = None

    def __init__(self, options: ModelOptions, beam: int, compute_type: str = "float32") -> None:
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
            threads = torch.get_num_threads()
            self.side_by_side, self.together = (
                Translator(folder, "cpu", compute_type=compute_type, inter_threads=workers, intra_threads=each)
                for workers, each in ((threads, 1), (1, threads))
            )

    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        translator = self.side_by_side if batch_size > 1 else self.together
        words = [[_word(number) for number in (*source, EOS)] for source in group.sources]
        calls = [words] if batch_size > 1 else [[each] for each in words]
        return [
            [int(word[1:]) for word in each.hypotheses[0]]
            for sources in calls
            for each in translator.translate_batch(
                sources,
                beam_size=self.beam,
                min_decoding_length=group.steps,
                max_decoding_length=group.steps,
                max_batch_size=batch_size,
            )
        ]


def _word(number: int) -> str:
    return f"w{number}"


build = CTranslate2
