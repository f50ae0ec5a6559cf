"""Beam search: width 1 is greedy, an exhaustive beam finds the optimum, and the stopping rules."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from support import plain_searches
from support.ending_models import language_model, outputs, tokens, translator
from support.plain_searches import BOS, EOS


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


def test_a_later_stopping_rule_never_gives_a_worse_best_hypothesis() -> None:
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
