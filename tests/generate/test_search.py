"""Every search against its definition; batches, order, cache and company change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina import UserError, residual
from lamina.generate.constraints import penalty
from lamina.generate.decoder import Hypothesis
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import score
from lamina.generate.search import generate, stream
from support import plain_searches
from support.ending_models import SENTENCES, language_model, translator
from support.plain_searches import BOS, EOS

few = settings(max_examples=20, deadline=None)


def outputs(model: Any, sources: Any = SENTENCES, prefixes: Any = None, **options: Any) -> list[list[Hypothesis]]:
    return generate(model, sources, GenerateOptions(**options), bos=BOS, eos=EOS, prefixes=prefixes)


def tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[each.tokens for each in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("name", residual.names())
def test_every_scheme_decodes_with_the_cache_as_without(name: str) -> None:
    model = translator(name)
    options = GenerateOptions(beam=3, nbest=3, max_length=6)
    greedy, beams = outputs(model, method="greedy", max_length=6), generate(model, SENTENCES, options, bos=BOS, eos=EOS)
    for source, [best], hypotheses in zip(SENTENCES, greedy, beams, strict=True):
        assert best.tokens == plain_searches.greedy(model, source, 6)
        assert [each.tokens for each in hypotheses] == plain_searches.beam(model, source, 6, options)[:3]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("kind", [translator, language_model])
def test_prefixes_and_prompts_of_different_lengths(kind: Any, positions: str) -> None:
    """What outputs start from: a language tag, a forced beginning, the prompt of a language model."""
    model = kind(positions=positions, num_kv_heads=1)
    prefixes = [[30] * (at % 4) for at in range(len(SENTENCES))]
    options = GenerateOptions(beam=3, nbest=3, max_length=6)
    found = outputs(model, prefixes=prefixes, **options.model_dump(exclude_defaults=True))
    for source, prefix, hypotheses in zip(SENTENCES, prefixes, found, strict=True):
        assert [each.tokens for each in hypotheses] == plain_searches.beam(model, source, 6, options, prefix)[:3]
        wanted = plain_searches.totals(model, source, [each.tokens for each in hypotheses], prefix)
        assert [each.log_probability for each in hypotheses] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("kind", [translator, language_model])
def test_beam_1_equals_greedy(kind: Any) -> None:
    for seed in range(4):
        model = kind(seed=seed)
        greedy, beam = outputs(model, method="greedy"), outputs(model, beam=1)
        assert tokens(greedy) == tokens(beam)
        for [one], [other] in zip(greedy, beam, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("kind", ["power", "wu"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.2, -0.5])
def test_a_beam_that_holds_everything_finds_the_best_there_is(kind: Any, length_penalty: float) -> None:
    options = GenerateOptions(
        beam=130, nbest=20, max_length=3, length_penalty=length_penalty, length_penalty_kind=kind, stop="certain"
    )
    model = translator(vocab_size=6, num_layers=1)
    sources = [[3, 4, 5], [5], [4, 3]]
    found = generate(model, sources, options, bos=BOS, eos=EOS)
    for source, hypotheses in zip(sources, found, strict=True):
        wanted = plain_searches.exhaustive(model, source, 3, options)[:20]
        assert [each.tokens for each in hypotheses] == [output for _, output in wanted]
        assert [each.score for each in hypotheses] == pytest.approx([value for value, _ in wanted], abs=1e-5)


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("kind", [translator, language_model])
def test_scores_are_those_of_forced_scoring(kind: Any, method: Any) -> None:
    model = kind()
    nbest = 1 if method == "greedy" else 4
    chosen = {"min_length": 2, "no_repeat_ngram": 2, "temperature": 1.7, "length_penalty": 0.8}
    found = outputs(model, method=method, nbest=nbest, **chosen)
    pairs = [(source, each) for source, hypotheses in zip(SENTENCES, found, strict=True) for each in hypotheses]
    forced = score(model, [source for source, _ in pairs], [each.tokens for _, each in pairs], bos=BOS, eos=EOS)
    for (source, each), scored in zip(pairs, forced, strict=True):
        assert each.log_probability == pytest.approx(scored.log_probability, abs=1e-4)
        assert scored.log_probability == pytest.approx(plain_searches.totals(model, source, [each.tokens])[0], abs=1e-4)
        assert each.score == pytest.approx(
            scored.log_probability / penalty(scored.count, GenerateOptions(length_penalty=0.8)), abs=1e-4
        )


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("kind", [translator, language_model])
def test_batches_and_order_change_no_output(kind: Any, method: Any) -> None:
    model = kind()
    options = {"method": method, "nbest": 1 if method == "greedy" else 3, "beam": 3}
    together = tokens(outputs(model, **options))
    assert tokens(outputs(model, max_tokens=1, **options)) == together, "one by one"
    assert tokens(outputs(model, max_tokens=150, **options)) == together
    windows = stream(model, iter(SENTENCES), GenerateOptions(**options), bos=BOS, eos=EOS, window=3)
    assert tokens(list(windows)) == together
    if method != "sample":  # a sample belongs to the number of its sentence
        backwards = outputs(model, SENTENCES[::-1], **options)
        assert tokens(backwards)[::-1] == together


def test_the_stopping_rules_differ_only_in_when() -> None:
    """Waiting longer never makes the best hypothesis worse."""
    better = 0
    for seed in range(3):
        model = language_model(seed=seed)
        best = [
            [each[0].score for each in outputs(model, beam=2, max_length=8, length_penalty=2.0, stop=stop)]
            for stop in ("full", "likely", "certain")
        ]
        for full, likely, certain in zip(*best, strict=True):
            assert full <= likely + 1e-6
            assert likely <= certain + 1e-6
            better += full < certain - 1e-6
    assert better, "no sentence of this test gains by waiting"


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


def test_an_output_to_which_no_word_is_left_ends_before_its_time() -> None:
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


def test_an_empty_source_has_no_hypotheses() -> None:
    model = translator()
    found = outputs(model, [[], [3, 4], [], [5]])
    assert [len(each) for each in found] == [0, 1, 0, 1]
    assert tokens(found)[1::2] == tokens(outputs(model, [[3, 4], [5]]))


def test_leaves_the_mode_of_the_model_as_it_was() -> None:
    model = translator().train()
    outputs(model, [[3, 4]], beam=2)
    list(score(model, [[3]], [[4]], bos=BOS, eos=EOS))
    assert model.training


def test_a_model_that_has_diverged_says_so() -> None:
    model = translator()
    with torch.no_grad():
        model.tables["source"].weight[5] = torch.nan
    with pytest.raises(UserError, match="it has diverged"):
        outputs(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 2, "nbest": 3}, "nbest 3 outputs cannot come from a beam of 2"),
        ({"method": "greedy", "nbest": 2}, "greedy decoding has one output"),
        ({"min_length": 5, "max_length": 4}, "min_length 5 is larger than max_length 4"),
        ({"method": "bean"}, "did you mean 'beam'"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        GenerateOptions.read(options, where="generate")
