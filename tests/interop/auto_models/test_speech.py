"""Speech recognition in transformers: frames in, the same scores and greedy outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lamina.data.tokenizer import BOS, EOS
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from support.varied_runs import varied_run

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")

from lamina.interop.auto_models.folder import library_model  # noqa: E402
from lamina.interop.auto_models.speech import shortened  # noqa: E402


def test_utterances_of_several_lengths(stores: Path) -> None:
    run = varied_run("speech-recognition", stores)
    model, bins = library_model(run), run.model.options.feature_dim
    lengths = [37, 52, 20]
    frames = [torch.randn(length, bins) for length in lengths]
    batch = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)
    mask = torch.arange(52) < torch.tensor(lengths)[:, None]
    found = model.generate(input_features=batch, attention_mask=mask.long(), num_beams=1, max_new_tokens=7)
    options = GenerateOptions(method="greedy", max_length=7)
    own = generate(run.model, [np.asarray(each) for each in frames], options, bos=BOS, eos=EOS)  # type: ignore[arg-type]
    for row, [best] in zip(found.tolist(), own, strict=True):
        assert [token for token in row[1:] if token not in (0, EOS)] == [each for each in best.tokens if each]
    target = torch.tensor([[BOS, 9, 10]] * 3)
    logits = model(input_features=batch, attention_mask=mask, decoder_input_ids=target).logits
    expected = run.model(torch.cat(frames), target, source_lengths=lengths, target_lengths=[3] * 3)
    torch.testing.assert_close(logits, expected, atol=1e-6, rtol=1e-6)


def test_a_quarter_of_the_frames_rounded_up_twice() -> None:
    mask = torch.arange(9) < torch.tensor([[9], [5], [1]])
    assert shortened(mask).sum(1).tolist() == [3, 2, 1]
