"""Forced scoring: log-probability and perplexity per sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lamina.generate.scoring import Scored, score
from support import plain_searches
from support.ending_models import SENTENCES, language_model, translator
from support.plain_searches import BOS, EOS

TARGETS = [[21, 22], [], [23], [24, 25, 26, 27], [28] * 5, [29], [30, 31], [32]]
PREFIXES = [[33] * (at % 3) for at in range(len(TARGETS))]


@pytest.mark.parametrize("kind", [translator, language_model])
@pytest.mark.parametrize("max_tokens", [1, 30, 4096])
def test_each_target_is_scored_as_if_alone(kind: Any, max_tokens: int) -> None:
    model = kind()
    found = list(score(model, SENTENCES, TARGETS, prefixes=PREFIXES, bos=BOS, eos=EOS, max_tokens=max_tokens, window=5))
    for source, target, prefix, scored in zip(SENTENCES, TARGETS, PREFIXES, found, strict=True):
        assert scored.log_probability == pytest.approx(
            plain_searches.totals(model, source, [target], prefix)[0], abs=1e-4
        )
        assert scored.count == len(target) + 1


def test_perplexity_is_per_token_with_the_end() -> None:
    assert Scored(-6.0, 3).perplexity == pytest.approx(math.exp(2.0))


def test_as_many_targets_as_sources() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(score(translator(), SENTENCES, TARGETS[:-1], bos=BOS, eos=EOS))
