"""Every search against its definition; batches, order, cache and other sentences do not change results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UserError
from lamina.generate.constraints import penalty
from lamina.generate.decoder import Model
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import score
from lamina.generate.search import cut, generate, in_batches, stream
from support import plain_searches
from support.ending_models import SENTENCES, language_model, outputs, tokens, translator
from support.plain_searches import BOS, EOS


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


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=60), st.integers(1, 400))
def test_every_item_is_in_one_batch_that_fits(sizes: list[tuple[int, int]], max_tokens: int) -> None:
    """Though the largest of one part need not be the largest of the other."""
    batches = list(cut(sizes, max_tokens))
    assert sorted(at for batch in batches for at in batch) == list(range(len(sizes)))
    for batch in batches:
        ones, others = zip(*(sizes[at] for at in batch), strict=True)
        assert len(batch) * (max(ones) + max(others)) <= max_tokens or len(batch) == 1


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200), st.integers(1, 70) | st.none())
def test_results_come_in_the_order_of_the_input(sizes: list[int], max_tokens: int, window: int | None) -> None:
    items = list(enumerate(sizes))

    def work(numbers: list[int], batch: list[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, int]]]:
        assert [number for number, _ in batch] == numbers
        yield from reversed(list(enumerate(batch)))  # done in any order

    assert list(in_batches(items, work, lambda item: (item[1],), max_tokens, window)) == items


def test_results_before_a_mistake_in_the_input_are_not_lost() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise UserError("item 6 is wrong")

    def work(numbers: list[int], batch: list[int]) -> Iterator[tuple[int, int]]:
        yield from enumerate(batch)

    found = in_batches(items(), work, lambda item: (1,), 2, window=4)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(UserError, match="item 6"):
        next(found)
    with pytest.raises(UserError, match="item 6"):  # all are read first
        next(in_batches(items(), work, lambda item: (1,), 2))


def test_an_endless_input_streams_through_a_bounded_window() -> None:
    read = 0

    def endless() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    def work(numbers: list[int], batch: list[int]) -> Iterator[tuple[int, int]]:
        return iter(enumerate(batch))

    results = in_batches(endless(), work, lambda item: (item % 7 + 1,), 20, window=100)
    for expected in islice(count(1), 10_000):
        assert next(results) == expected
        assert read <= expected + 100


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
