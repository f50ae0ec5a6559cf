"""Decoding with the cache gives the same scores as without."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamina import UserError, residual
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from support import plain_searches
from support.ending_models import SENTENCES, language_model, outputs, translator
from support.plain_searches import BOS, EOS


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


def test_a_model_that_has_diverged_says_so() -> None:
    model = translator()
    with torch.no_grad():
        model.tables["source"].weight[5] = torch.nan
    with pytest.raises(UserError, match="it has diverged"):
        outputs(model)
