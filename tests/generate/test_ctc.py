"""CTC decoding against sums over all alignments, and its ranking by CTC and decoder."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from lamina.errors import UserError
from lamina.generate.ctc import BLANK, search_prefixes
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import score
from lamina.generate.search import generate
from lamina.model.models import EncoderDecoder
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer

BOS, EOS = 2, 3
SIZES = {"num_layers": 1, "model_dim": 16, "feed_forward_dim": 16, "num_heads": 2, "dropout": 0.0, "vocab_size": 7}


def random_frames(count: int, vocabulary: int, seed: int) -> np.ndarray:
    scores = torch.randn(count, vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(2 * scores, -1).numpy()


def sums_over_alignments(frames: np.ndarray) -> dict[tuple[int, ...], float]:
    """ln P of every output: all paths, with repetitions merged and blanks removed."""
    totals: dict[tuple[int, ...], float] = {}
    for path in product(range(frames.shape[1]), repeat=len(frames)):
        merged = [token for at, token in enumerate(path) if at == 0 or token != path[at - 1]]
        output = tuple(token for token in merged if token != BLANK)
        own = sum(frames[at, token] for at, token in enumerate(path))
        totals[output] = np.logaddexp(totals.get(output, -np.inf), own)
    return totals


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_search_finds_every_output_with_its_probability(seed: int) -> None:
    frames = random_frames(5, 3, seed)
    expected = sums_over_alignments(frames)
    found = search_prefixes(frames, beam=1000, longest=5)
    assert found == {output: pytest.approx(value, abs=1e-9) for output, value in expected.items()}
    assert np.logaddexp.reduce(list(found.values())) == pytest.approx(0.0, abs=1e-9)


def test_a_repeated_token_needs_a_blank_in_between() -> None:
    sure = np.log(np.full((3, 3), 1e-6))
    sure[[0, 1, 2], [1, 1, 1]] = 0.0
    assert max(found := search_prefixes(sure, 4, 3), key=lambda each: found[each]) == (1,)
    sure[1] = np.log([1.0, 1e-6, 1e-6])
    assert max(found := search_prefixes(sure, 4, 3), key=lambda each: found[each]) == (1, 1)


def test_outputs_have_at_most_the_given_length() -> None:
    assert max(map(len, search_prefixes(random_frames(6, 4, seed=1), 50, longest=2))) == 2


def speech_model(ctc: bool = True) -> EncoderDecoder:
    torch.manual_seed(3)
    values = {
        "kind": "encoder-decoder",
        "feature_dim": 6,
        "front_end_channels": 8,
        "ctc": ctc,
        "shared_embeddings": "decoder",
        **SIZES,
    }
    model = Transformer.build(ModelOptions.read(values, where="model"))
    assert isinstance(model, EncoderDecoder)
    return model


UTTERANCES = [
    torch.randn(length, 6, generator=torch.Generator().manual_seed(length)).numpy() for length in (40, 64, 25)
]


def test_hypotheses_are_ranked_by_the_weighted_scores_of_both() -> None:
    model = speech_model()
    options = GenerateOptions(method="ctc", beam=6, nbest=6, ctc_weight=0.3, max_length=30)
    for utterance, found in zip(UTTERANCES, generate(model, UTTERANCES, options, bos=BOS, eos=EOS), strict=True):
        outputs = [each.tokens for each in found]
        assert len(outputs) == 6
        by_decoder = list(score(model, [utterance] * 6, outputs, bos=BOS, eos=EOS))
        assert [each.log_probability for each in found] == pytest.approx(
            [each.log_probability for each in by_decoder], abs=1e-4
        )
        by_ctc = [-_ctc_loss(model, utterance, tokens) for tokens in outputs]
        expected = [0.3 * one + 0.7 * other.log_probability for one, other in zip(by_ctc, by_decoder, strict=True)]
        # The search may have missed alignments of prefixes that it dropped, so its ln P is at most the exact one.
        assert [each.score for each in found] == pytest.approx(expected, abs=0.5)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def _ctc_loss(model: EncoderDecoder, utterance: np.ndarray, tokens: list[int]) -> float:
    with torch.inference_mode():
        memory, sequences = model.encode(torch.from_numpy(utterance), [len(utterance)])
        assert model.ctc_head is not None
        frames = model.ctc_head(memory).unsqueeze(1)
        counts = torch.tensor(sequences.counts), torch.tensor([len(tokens)])
        return torch.nn.functional.ctc_loss(frames, torch.tensor([tokens]), *counts, reduction="sum").item()


def test_outputs_do_not_depend_on_the_batch() -> None:
    model, options = speech_model(), GenerateOptions(method="ctc", beam=4, max_length=30)
    together = generate(model, UTTERANCES, options, bos=BOS, eos=EOS)
    alone = [generate(model, [each], options, bos=BOS, eos=EOS)[0] for each in UTTERANCES]
    assert [each[0].tokens for each in together] == [each[0].tokens for each in alone]


def test_a_model_without_ctc_head_is_refused() -> None:
    with pytest.raises(UserError, match="ctc_weight above 0"):
        generate(speech_model(ctc=False), UTTERANCES, GenerateOptions(method="ctc"), bos=BOS, eos=EOS)


def test_a_model_of_text_and_a_prefix_are_refused() -> None:
    text = Transformer.build(ModelOptions.read({"kind": "encoder-decoder", **SIZES}, where="model"))
    with pytest.raises(UserError, match="speech recognition"):
        generate(text, [[4, 5]], GenerateOptions(method="ctc"), bos=BOS, eos=EOS)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="prefix"):
        generate(speech_model(), UTTERANCES[:1], GenerateOptions(method="ctc"), bos=BOS, eos=EOS, prefixes=[[4]])
