"""Samples follow the distribution they are drawn from, and stay inside top-k and top-p."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.generate.options import GenerateOptions
from lamina.generate.sampling import draw
from lamina.generate.search import generate
from support.ending_models import language_model, translator
from support.plain_searches import BOS, EOS, log_probabilities

scores_of_words = st.lists(st.floats(-5, 5), min_size=2, max_size=12)


@settings(max_examples=100, deadline=None)
@given(
    scores=scores_of_words,
    uniform=st.floats(0, 1, exclude_max=True),
    top_k=st.integers(0, 12),
    top_p=st.floats(0.05, 1),
    temperature=st.floats(0.2, 3),
)
def test_the_support(scores: list[float], uniform: float, top_k: int, top_p: float, temperature: float) -> None:
    given_scores = torch.tensor(scores, dtype=torch.float64)
    options = GenerateOptions(top_k=top_k, top_p=top_p, temperature=temperature)
    word = int(draw(given_scores, torch.tensor(uniform, dtype=torch.float64), options))
    likelier = (given_scores > given_scores[word]).sum()
    if top_k:
        assert likelier < top_k
    kept = given_scores.sort(descending=True).values[: top_k or None]
    probabilities = (kept / temperature).softmax(-1)
    assert probabilities[:likelier].sum() < top_p + 1e-9, "likelier words alone already have top_p"


@settings(max_examples=50, deadline=None)
@given(scores=scores_of_words, temperature=st.floats(0.3, 3))
def test_the_share_of_each_word_is_its_probability(scores: list[float], temperature: float) -> None:
    """A fine grid of uniform numbers hits each word in proportion."""
    given_scores = torch.tensor(scores, dtype=torch.float64)
    grid = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000
    words = draw(given_scores.expand(4000, -1), grid, GenerateOptions(temperature=temperature))
    shares = torch.bincount(words, minlength=len(scores)) / 4000
    torch.testing.assert_close(shares.double(), (given_scores / temperature).softmax(-1), atol=1e-3, rtol=0)


def test_what_is_forbidden_is_never_drawn() -> None:
    scores = torch.tensor([[-torch.inf, 0.0, -torch.inf, 1.0]]).expand(1000, -1)
    words = draw(scores, torch.rand(1000, dtype=torch.float64), GenerateOptions())
    assert set(words.tolist()) == {1, 3}


def test_first_words_of_many_samples_follow_the_model() -> None:
    model = translator(vocab_size=8, num_layers=1)
    source, count = [3, 4, 5], 4000
    options = GenerateOptions(method="sample", max_length=1, min_length=1)
    found = generate(model, [source] * count, options, bos=BOS, eos=EOS)
    shares = np.bincount([each[0].tokens[0] for each in found], minlength=8) / count
    wanted = log_probabilities(model, source, [[]])[0][-1].exp()
    wanted[EOS] = 0.0
    assert shares == pytest.approx((wanted / wanted.sum()).numpy(), abs=0.03)


def test_the_seed_decides_and_samples_of_a_sentence_differ() -> None:
    model = language_model()

    def sampled(seed: int) -> list[list[int]]:
        options = GenerateOptions(method="sample", nbest=5, seed=seed, max_length=8)
        return [each.tokens for each in generate(model, [[3, 4]], options, bos=BOS, eos=EOS)[0]]

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)
    assert len({tuple(tokens) for tokens in sampled(1)}) > 1
