"""Constraints on outputs: lengths, length penalties and repeated n-grams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina import UserError
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from support.ending_models import SENTENCES, language_model, outputs, translator
from support.plain_searches import BOS, EOS

few = settings(max_examples=20, deadline=None)


@few
@given(
    beam=st.integers(1, 4),
    shortest=st.integers(0, 6),
    more=st.integers(0, 4),
    length_penalty=st.floats(-1, 2),
    kind=st.sampled_from(["power", "wu"]),
    method=st.sampled_from(["beam", "greedy", "sample"]),
    seed=st.integers(0, 5),
)
def test_lengths_and_penalties(
    beam: int, shortest: int, more: int, length_penalty: float, kind: Any, method: Any, seed: int
) -> None:
    options = GenerateOptions(
        method=method,
        beam=beam,
        nbest=1 if method == "greedy" else beam,
        min_length=shortest,
        max_length=shortest + more or 1,
        length_penalty=length_penalty,
        length_penalty_kind=kind,
    )
    found = generate(translator(seed=seed), SENTENCES[:4], options, bos=BOS, eos=EOS)
    for hypotheses in found:
        assert 1 <= len(hypotheses) <= beam
        for each in hypotheses:
            assert shortest <= len(each.tokens) <= max(1, shortest + more)
            assert EOS not in each.tokens
            length = len(each.tokens) + 1
            divisor = length**length_penalty if kind == "power" else ((5 + length) / 6) ** length_penalty
            assert each.score == pytest.approx(each.log_probability / divisor, rel=1e-4)
        if method == "beam":
            scores = [each.score for each in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses), "no output comes twice"


@few
@given(size=st.integers(1, 3), method=st.sampled_from(["beam", "greedy", "sample"]), seed=st.integers(0, 5))
def test_no_ngram_comes_twice(size: int, method: Any, seed: int) -> None:
    model = translator(seed=seed, vocab_size=12, num_layers=1)
    lengths = {"min_length": 8, "max_length": 10}

    def repeats(tokens: list[int]) -> bool:
        grams = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
        return len(set(grams)) < len(grams)

    found = outputs(model, [[3, 4, 5], [6, 7]], method=method, no_repeat_ngram=size, **lengths)
    assert not any(repeats(best.tokens) for [best] in found)
    free = outputs(model, [[3, 4, 5], [6, 7]], method="sample", nbest=9, temperature=0.1, **lengths)
    assert any(repeats(each.tokens) for hypotheses in free for each in hypotheses), (
        "unforced, this model repeats itself"
    )


def test_an_output_without_any_allowed_word_ends_early() -> None:
    model = translator(vocab_size=6, num_layers=1)
    for method in ("beam", "greedy"):
        [[best]] = outputs(model, [[3, 4]], method=method, no_repeat_ngram=1, min_length=8, max_length=9)
        assert sorted(best.tokens) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
def test_the_least_length_counts_where_a_short_source_would_allow_less(method: Any) -> None:
    [[best]] = outputs(translator(), [[3]], method=method, min_length=30, length_factor=1.2, length_margin=10)
    assert len(best.tokens) == 30


def test_learned_positions_bound_source_and_output() -> None:
    model = translator(positions="learned", max_length=8)
    [[best]] = outputs(model, [[3] * 8], min_length=30, max_length=40)
    assert len(best.tokens) == 7
    with pytest.raises(UserError, match="longer than the 8 learned positions"):
        outputs(model, [[3] * 9])
    prompted = language_model(positions="learned", max_length=8)
    [[best]] = outputs(prompted, [[3] * 5], min_length=30, max_length=40)
    assert len(best.tokens) == 2
    with pytest.raises(UserError, match="9 tokens to start from leave no room"):
        outputs(prompted, [[3] * 8])
