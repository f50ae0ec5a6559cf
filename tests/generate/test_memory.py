"""What a search holds at a time: no more than the token budget, and only what is not finished."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lamina.generate.decoder import Model
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate, stream
from support.ending_models import SENTENCES, language_model, translator
from support.plain_searches import BOS, EOS


def sentences(count: int, longest: int, seed: int) -> list[list[int]]:
    lengths = np.random.default_rng(seed).integers(1, longest + 1, count)
    return [[3 + at % 30] * length for at, length in enumerate(lengths.tolist())]


def count_tokens(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by a number for every batch: the slots of its cache, and those of its sources' keys."""
    held: list[int] = []
    new_cache, encode = model.new_cache, getattr(model, "encode", None)

    def counted_cache(rows: int, capacity: int) -> Any:
        held.append(rows * capacity)
        return new_cache(rows, capacity)

    def counted_encode(ids: Any, lengths: Any) -> Any:
        held[-1] += len(lengths) * max(lengths)
        assert encode is not None
        return encode(ids, lengths)

    monkeypatch.setattr(model, "new_cache", counted_cache)
    if encode is not None:
        monkeypatch.setattr(model, "encode", counted_encode)
    return held


@pytest.mark.parametrize("count", [30, 120])
@pytest.mark.parametrize("window", [None, 25])
def test_the_budget_holds_whatever_the_input(count: int, window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long prefixes before short sources, and prompts that leave little room beside such that leave much."""
    prompted = language_model(num_layers=1, positions="learned", max_length=40)
    for model, prefixes, options in (
        (translator(num_layers=1), sentences(count, 20, seed=2), {"method": "beam", "beam": 2, "max_length": 8}),
        (prompted, [[]] * count, {"method": "greedy", "max_length": 30}),
    ):
        held = count_tokens(model, monkeypatch)
        chosen = GenerateOptions(max_tokens=400, **options)
        sources = iter(sentences(count, 30, seed=1))
        found = stream(model, sources, chosen, bos=BOS, eos=EOS, prefixes=iter(prefixes), window=window)
        assert all(len(hypotheses) == 1 for hypotheses in found)
        assert len(held) < count / 2, "several sentences in a batch"
        assert 200 < max(held) <= 400


@pytest.mark.parametrize("kind", [translator, language_model])
def test_finished_sentences_leave_the_batch(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the model has a row for every sentence, or hypothesis, that is still open, and no other."""
    model, rows = kind(), list[int]()
    step = model.step

    def counted(ids: Any, lengths: Any, **others: Any) -> Any:
        rows.append(len(lengths))
        return step(ids, lengths, **others)

    monkeypatch.setattr(model, "step", counted)
    found = generate(model, SENTENCES, GenerateOptions(method="greedy"), bos=BOS, eos=EOS)
    lengths = [len(best.tokens) for [best] in found]
    assert len({*lengths}) > 2
    assert rows == [sum(length >= read for length in lengths) for read in range(max(lengths) + 1)]

    rows.clear()
    generate(model, SENTENCES, GenerateOptions(beam=3), bos=BOS, eos=EOS)
    assert rows[0] == len(SENTENCES)
    assert all(number % 3 == 0 for number in rows[1:])
    assert rows[1:] == sorted(rows[1:], reverse=True)
    assert rows[-1] < rows[1] <= 3 * len(SENTENCES)
