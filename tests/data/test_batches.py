"""Batches: the tokens of the examples that the plan names, for any number of processes, from any step."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.batches import Batch, Batches
from lamina.data.examples import Examples, MemorySplit, example_sizes
from lamina.data.order import BatchPlan, OrderOptions
from lamina.data.packed import PackedField
from lamina.errors import UserError

OPTIONS = OrderOptions(max_tokens=60, pool=32)


def split_of(count: int, seed: int = 0) -> MemorySplit:
    random = np.random.default_rng(seed)
    return MemorySplit(
        {
            name: [random.integers(4, 90, 1 + random.integers(0, 20)).tolist() for _ in range(count)]
            for name in ("source", "target")
        }
    )


def batches_of(split: Examples, rank: int = 0, processes: int = 1) -> Batches:
    plan = BatchPlan(example_sizes(split, ("source", "target"), added=1), OPTIONS, seed=3)
    return Batches(split, plan, rank=rank, processes=processes)


def contents(batch: Batch) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    columns = (batch[name].sequences() for name in ("source", "target"))
    rows = zip(batch.examples.tolist(), *columns, strict=True)
    return [(example, tuple(source.tolist()), tuple(target.tolist())) for example, source, target in rows]


@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_have_the_global_batches_of_one(processes: int) -> None:
    split = split_of(150)
    alone = batches_of(split)
    together = [batches_of(split, rank, processes) for rank in range(processes)]
    for epoch in range(2):
        shares = zip(*(batches.epoch(epoch) for batches in together), strict=True)
        for whole, parts in zip(alone.epoch(epoch), shares, strict=True):
            assert sorted(contents(whole)) == sorted(row for part in parts for row in contents(part))


@given(st.integers(0, 60), st.integers(0, 1))
@settings(max_examples=30)
def test_going_on_from_any_step_gives_the_same_batches(step: int, rank: int) -> None:
    split = split_of(60)
    straight = list(islice(batches_of(split, rank, 2).forever(), step + 5))
    resumed = batches_of(split, rank, 2)
    again = islice(resumed.forever(*resumed.plan.locate(step)), 5)
    for expected, batch in zip(straight[step:], again, strict=True):
        assert (batch.epoch, batch.index) == (expected.epoch, expected.index)
        assert contents(batch) == contents(expected)


def test_a_batch_has_the_tokens_of_its_examples_and_keeps_to_the_budget() -> None:
    split = split_of(80)
    for batch in batches_of(split).epoch(0):
        for name in ("source", "target"):
            expected = [split.tokens(name, int(example)).tolist() for example in batch.examples]
            assert [sequence.tolist() for sequence in batch[name].sequences()] == expected
            assert batch[name].lengths.sum() + len(batch) <= OPTIONS.max_tokens


def test_only_the_fields_asked_for_are_read() -> None:
    split = split_of(20)
    plan = BatchPlan(split.lengths("source"), OPTIONS)
    assert list(Batches(split, plan, fields=["source"]).batch(0, 0).fields) == ["source"]


def test_sizes_count_the_longer_field_and_what_is_added() -> None:
    split = MemorySplit({"source": [[1, 2, 3], [1]], "target": [[1], [1, 2]]})
    assert example_sizes(split, ("source", "target"), added=2).tolist() == [5, 4]


def test_a_memory_split_refuses_fields_that_do_not_belong_together() -> None:
    with pytest.raises(UserError, match="source 1, target 2"):
        MemorySplit({"source": [[1]], "target": [[1], [2]]})
    with pytest.raises(UserError, match="did you mean 'source'"):
        MemorySplit({"source": [[1]]}).lengths("sourc")


def test_a_memory_split_can_be_made_from_packed_arrays() -> None:
    split = MemorySplit({"text": PackedField(np.arange(5), np.array([2, 3]))})
    assert split.tokens("text", 1).tolist() == [2, 3, 4]
    ids, lengths = split.gather("text", np.array([1, 0]))
    assert ids.tolist() == [2, 3, 4, 0, 1]
    assert lengths.tolist() == [3, 2]
