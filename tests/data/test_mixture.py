"""Several sets as one: numbering, tags, and how often each set is drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.batches import Batches
from lamina.data.examples import MemorySplit
from lamina.data.mixture import JoinedExamples, TemperatureSampling
from lamina.data.order import BatchPlan, OrderOptions
from lamina.data.packed import prepend
from lamina.errors import UserError


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
    epoch, index = plan().locate(len(everything) - 4)
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
