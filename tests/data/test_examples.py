"""Blocks of running text, and the examples of several sets joined and sampled."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.batches import Batches, BatchPlan, OrderOptions
from lamina.data.examples import Blocks, JoinedExamples, TemperatureSampling, example_sizes, windows
from lamina.data.packed import prepend
from lamina.errors import UserError
from support.batch_plans import locate
from support.memory_batches import MemorySplit

END = 0
documents_of_tokens = st.lists(st.lists(st.integers(1, 99), max_size=12), min_size=1, max_size=8)


def blocks_of(documents: list[list[int]], **settings: int | bool) -> Blocks:
    return Blocks(MemorySplit({"text": documents}), boundary=END, **settings)  # type: ignore[arg-type]


@given(st.integers(0, 80), st.integers(1, 12), st.data())
def test_windows_score_every_token_exactly_once(total: int, length: int, data: st.DataObject) -> None:
    context = data.draw(st.integers(0, length - 1))
    start, fresh, stop = windows(total, length, context)
    scored = [token for begin, end in zip(fresh, stop, strict=True) for token in range(begin, end)]
    assert scored == list(range(total))
    assert (stop - start <= length).all()
    assert (start <= fresh).all()
    assert (fresh[1:] - start[1:] >= context).all()


@given(documents_of_tokens, st.integers(1, 9), st.booleans(), st.data())
def test_scored_targets_are_the_text_and_inputs_come_just_before_them(
    documents: list[list[int]], length: int, across: bool, data: st.DataObject
) -> None:
    context = data.draw(st.integers(0, length - 1))
    blocks = blocks_of(documents, length=length, context=context, across_documents=across)
    stream = [token for document in documents for token in (*document, END)]
    seen = []
    for index in range(len(blocks)):
        source, target, scored = (blocks.tokens(field, index) for field in blocks.fields)
        assert len(source) == len(target) == len(scored) == blocks.lengths("input")[index] <= length
        assert source[1:].tolist() == target[:-1].tolist()
        first = len(seen) - int((scored == 0).sum())
        assert source.tolist() == [END, *stream][first : first + len(target)]
        seen += target[scored == 1].tolist()
    assert seen == stream


def test_documents_apart_never_share_a_block() -> None:
    blocks = blocks_of([[1, 2, 3], [4, 5]], length=10, across_documents=False)
    assert [blocks.tokens("target", index).tolist() for index in range(len(blocks))] == [[1, 2, 3, END], [4, 5, END]]
    assert blocks.tokens("input", 1).tolist() == [END, 4, 5]


def test_a_window_with_context_shows_old_tokens_and_scores_new_ones() -> None:
    blocks = blocks_of([[1, 2, 3, 4, 5, 6, 7]], length=4, context=2)
    assert [blocks.tokens("target", i).tolist() for i in range(3)] == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, END]]
    assert [blocks.tokens("scored", i).tolist() for i in range(3)] == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_blocks_are_batched_like_any_examples() -> None:
    blocks = blocks_of([list(range(1, 60)), list(range(60, 100))], length=8)
    plan = BatchPlan(example_sizes(blocks, ("target",)), OrderOptions(max_tokens=24))
    batches = list(Batches(blocks, plan).epoch(0))
    assert sorted(token for batch in batches for token in batch["target"].ids) == sorted([END, *range(1, 100), END])
    for batch in batches:
        assert len(batch["target"].ids) <= 24
        assert np.array_equal(batch["input"].lengths, batch["scored"].lengths)


def test_impossible_blocks_are_refused() -> None:
    with pytest.raises(UserError, match="shorter than the block of 4"):
        windows(10, 4, 4)
    with pytest.raises(UserError, match="no documents"):
        blocks_of([], length=4)
    with pytest.raises(UserError, match="did you mean 'target'"):
        blocks_of([[1]], length=4).lengths("targets")


def joined_of(*counts: int) -> JoinedExamples:
    """The examples of set 2 hold nothing but 200, 201, …"""
    return JoinedExamples(
        [
            MemorySplit({"text": [[100 * part + i] * (1 + i % 3) for i in range(count)]})
            for part, count in enumerate(counts)
        ]
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_joined_examples_are_numbered_through(counts: list[int], data: st.DataObject) -> None:
    joined = joined_of(*counts)
    values = [100 * part + i for part, count in enumerate(counts) for i in range(count)]
    indices = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=12)), np.int64)
    ids, lengths = joined.gather("text", indices)
    assert len(joined) == len(values)
    assert lengths.tolist() == joined.lengths("text")[indices].tolist()
    assert ids.tolist() == [token for index in indices for token in joined.tokens("text", int(index)).tolist()]
    assert [joined.tokens("text", int(index))[0] for index in indices] == [values[index] for index in indices]
    assert joined.part_of(indices).tolist() == [values[index] // 100 for index in indices]


def test_each_sequence_can_be_tagged_with_its_language() -> None:
    joined, tags = joined_of(3, 4), np.array([7, 8])
    batch = Batches(joined, BatchPlan(joined.lengths("text") + 1, OrderOptions(max_tokens=50))).batch(0, 0)
    tagged = prepend(batch["text"], tags[joined.part_of(batch.examples)])
    assert len(batch) == 7
    for sequence in tagged.sequences():
        assert sequence[0] == (7 if sequence[1] < 100 else 8)


def test_at_temperature_one_an_epoch_is_every_example_once() -> None:
    assert sorted(TemperatureSampling([5, 3, 9])(4).tolist()) == list(range(17))


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 100.0])
def test_sets_are_drawn_in_proportion_to_a_power_of_their_size(temperature: float) -> None:
    counts = np.array([10_000, 1_000, 10])
    sampling = TemperatureSampling(counts, temperature)
    ideal = counts ** (1 / temperature) / (counts ** (1 / temperature)).sum() * counts.sum()
    assert np.abs(sampling.shares - ideal).max() < 1
    drawn = np.searchsorted(np.cumsum(counts), sampling(0), side="right")
    assert np.bincount(drawn).tolist() == sampling.shares.tolist()
    assert sampling.shares.sum() == counts.sum()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.floats(0.5, 8), st.integers(1, 7))
def test_over_epochs_every_example_of_a_set_is_drawn_equally_often(
    counts: list[int], temperature: float, epochs: int
) -> None:
    sampling = TemperatureSampling(counts, temperature, seed=3)
    drawn = Counter(int(example) for epoch in range(epochs) for example in sampling(epoch))
    first = 0
    for count in counts:
        times = [drawn[example] for example in range(first, first + count)]
        assert max(times) - min(times) <= 1
        first += count


def test_a_plan_follows_the_sampling_and_can_resume() -> None:
    joined = joined_of(90, 10)
    sampling = TemperatureSampling(joined.counts, temperature=3, seed=1)

    def plan() -> BatchPlan:
        return BatchPlan(joined.lengths("text"), OrderOptions(max_tokens=20), seed=2, draw=sampling)

    assert sorted(np.concatenate(plan().epoch(2))) == sorted(sampling(2))
    everything = [batch.tolist() for epoch in range(3) for batch in plan().epoch(epoch)]
    epoch, index = locate(plan(), len(everything) - 4)
    assert [batch.tolist() for batch in plan().epoch(epoch)[index:]] == everything[-4:]


def test_impossible_mixtures_are_refused() -> None:
    with pytest.raises(UserError, match="above 0"):
        TemperatureSampling([3], temperature=0)
    with pytest.raises(UserError, match="leave empty sets out"):
        TemperatureSampling([3, 0])
    with pytest.raises(UserError, match="no sets"):
        JoinedExamples([])
    with pytest.raises(UserError, match="set 1 .* no field 'text'"):
        JoinedExamples([MemorySplit({"text": [[1]]}), MemorySplit({"other": [[1]]})])
