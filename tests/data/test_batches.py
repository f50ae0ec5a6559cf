"""Batches: the order of examples, the shares of processes, their contents, and reading ahead."""

from __future__ import annotations

import gc
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.batches import Batch, Batches, BatchPlan, OrderOptions, ReadAhead, share
from lamina.data.examples import Examples, example_sizes
from lamina.data.noise import permutation
from lamina.data.packed import score_cells
from lamina.errors import UserError
from support.batch_plans import locate
from support.memory_batches import MemorySplit, batches_from

sizes_of_examples = st.lists(st.integers(1, 40), min_size=1, max_size=120)


def plan_of(sizes: list[int], seed: int = 0, **options: object) -> BatchPlan:
    return BatchPlan(np.array(sizes), OrderOptions.read({"max_tokens": 40, "sort_pool": 16, **options}, "test"), seed)


@given(sizes_of_examples, st.integers(40, 90), st.integers(1, 50), st.integers(0, 5), st.booleans())
def test_every_example_comes_once_an_epoch_and_no_batch_exceeds_the_budget(
    sizes: list[int], budget: int, pool: int, epoch: int, shuffle: bool
) -> None:
    batches = plan_of(sizes, max_tokens=budget, sort_pool=pool, shuffle=shuffle).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert all(0 < np.array(sizes)[batch].sum() <= budget for batch in batches)


def by_examples(sizes: list[int], count: int, seed: int = 0, **options: object) -> BatchPlan:
    return BatchPlan(np.array(sizes), OrderOptions.read({"batch_examples": count, **options}, "test"), seed)


@given(sizes_of_examples, st.integers(1, 50), st.integers(1, 50), st.integers(0, 5), st.booleans())
def test_batches_of_a_number_of_examples(sizes: list[int], count: int, pool: int, epoch: int, shuffle: bool) -> None:
    """However long the examples are, all batches but one have the same number of them."""
    plan = by_examples(sizes, count, sort_pool=pool, shuffle=shuffle)
    batches = plan.epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    rest = len(sizes) % count
    assert sorted(map(len, batches)) == ([rest] if rest else []) + [count] * (len(sizes) // count)
    assert plan.count_batches(3) == 3 * len(batches)


@given(sizes_of_examples, st.integers(1, 50), st.sampled_from([1, 2, 3, 4, 7]))
def test_processes_share_a_number_of_examples_evenly(sizes: list[int], count: int, processes: int) -> None:
    plan = by_examples(sizes, count)
    for batch in plan.epoch(0):
        shares = [share(batch, plan.sizes, rank, processes) for rank in range(processes)]
        assert sorted(np.concatenate(shares).tolist()) == sorted(batch.tolist())
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_examples_of_a_batch_have_similar_lengths_unless_the_pool_is_one() -> None:
    sizes = [1 + 17 * number % 100 for number in range(1000)]
    spreads = {}
    for pool in (1, 8192):
        plan = by_examples(sizes, 16, sort_pool=pool)
        spreads[pool] = np.mean([np.ptp(plan.sizes[batch]) for batch in plan.epoch(0)])
    assert spreads[8192] < 5 < 50 < spreads[1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"batch_examples": 32, "max_tokens": 4096},
            "test: batch_examples: max_tokens = 4096 is given too; leave one of them out, or set max_tokens to none",
        ),
        ({"max_tokens": "none"}, "the size of a batch is not given; set max_tokens or batch_examples"),
        ({"batch_examples": 0}, "batch_examples: .*greater than 0"),
    ],
)
def test_a_batch_has_exactly_one_size(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        OrderOptions.read(values, "test")
    assert OrderOptions(batch_examples=32).max_tokens is None
    assert OrderOptions.read({"batch_examples": 32, "max_tokens": "none"}, "test").batch_examples == 32


@given(sizes_of_examples, st.integers(0, 3), st.sampled_from([1, 2, 3, 4, 7]))
def test_processes_only_slice_a_global_batch(sizes: list[int], epoch: int, processes: int) -> None:
    plan = plan_of(sizes)
    for batch in plan.epoch(epoch):
        shares = [share(batch, plan.sizes, rank, processes) for rank in range(processes)]
        assert sorted(np.concatenate(shares).tolist()) == sorted(batch.tolist())
        tokens = [int(plan.sizes[mine].sum()) for mine in shares]
        assert max(tokens) - min(tokens) <= plan.sizes[batch].max()


@given(sizes_of_examples)
def test_two_processes_and_four_have_the_same_examples(sizes: list[int]) -> None:
    plan = plan_of(sizes)
    for batch in plan.epoch(0):
        by_world = [
            sorted(example for rank in range(world) for example in share(batch, plan.sizes, rank, world).tolist())
            for world in (1, 2, 4)
        ]
        assert by_world[0] == by_world[1] == by_world[2]


@given(sizes_of_examples, st.integers(0, 200), st.integers(0, 9))
@settings(max_examples=50)
def test_resuming_at_any_step_needs_only_integers(sizes: list[int], step: int, seed: int) -> None:
    straight = plan_of(sizes, seed)
    everything = [batch.tolist() for epoch in range(4) for batch in straight.epoch(epoch)]
    step = min(step, len(everything) - 1)
    resumed = plan_of(sizes, seed)
    epoch, index = locate(resumed, step)
    rest = [batch.tolist() for batch in resumed.epoch(epoch)[index:]]
    rest += [batch.tolist() for later in range(epoch + 1, 4) for batch in resumed.epoch(later)]
    assert rest == everything[step:]


def test_epochs_and_seeds_differ_and_repeat() -> None:
    sizes = [1 + i % 30 for i in range(300)]
    orders = {
        (seed, epoch): np.concatenate(plan_of(sizes, seed).epoch(epoch)).tolist()
        for seed in range(2)
        for epoch in range(2)
    }
    assert len({tuple(order) for order in orders.values()}) == 4
    assert orders[1, 1] == np.concatenate(plan_of(sizes, 1).epoch(1)).tolist()


def test_the_order_is_the_same_in_every_release() -> None:
    """Changing it would make runs begun with an earlier release resume into another order."""
    sizes = [1 + (7 * i) % 31 for i in range(2000)]
    batches = plan_of(sizes, 5, max_tokens=200, sort_pool=256).epoch(3)
    digest = hashlib.sha256(repr([batch.tolist() for batch in batches]).encode()).hexdigest()
    assert digest == "e1928cff62f11c193694314fb22bdce2e7fa9056f57afb809d9058059e3bbee4"


def test_grouping_by_length_saves_scores_and_is_bounded_by_the_pool() -> None:
    sizes = (1 + np.random.default_rng(0).geometric(1 / 20, 4000)).clip(max=200)

    def padding(pool: int) -> float:
        batches = BatchPlan(sizes, OrderOptions(max_tokens=1000, sort_pool=pool)).epoch(0)
        cells = [score_cells(sizes[batch], sizes[batch]) for batch in batches]
        return float(np.mean([1 - real / computed for computed, real in cells]))

    grouped, loose, ungrouped = padding(4000), padding(500), padding(1)
    assert grouped < 0.1 < ungrouped
    assert grouped < loose < ungrouped


def test_a_pool_is_a_bound_on_how_far_examples_move() -> None:
    """A batch holds examples of one pool of the shuffle, or of two where pools meet."""
    place = np.argsort(permutation(400, "examples", 0, 0))
    for batch in plan_of([1 + i % 39 for i in range(400)], sort_pool=50).epoch(0):
        assert np.ptp(place[batch] // 50) <= 1


def test_an_example_beyond_the_budget_is_named() -> None:
    with pytest.raises(UserError, match=r"example 2 has 90 tokens.*max_tokens = 40 \(2 such examples\).*alone"):
        plan_of([3, 50, 90, 4])


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_an_oversize_example_can_be_a_batch_of_its_own(sizes: list[int]) -> None:
    batches = plan_of(sizes, oversize="alone").epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or np.array(sizes)[batch].sum() <= 40


def test_without_shuffling_examples_come_by_size() -> None:
    sizes = [5, 3, 9, 1, 7]
    batches = plan_of(sizes, shuffle=False, max_tokens=9)
    assert [batch.tolist() for batch in batches.epoch(0)] == [[3, 1, 0], [4], [2]]
    assert [batch.tolist() for batch in batches.epoch(7)] == [[3, 1, 0], [4], [2]]


def test_no_examples_and_a_rank_that_does_not_exist_are_errors() -> None:
    with pytest.raises(UserError, match="no examples"):
        plan_of([])
    with pytest.raises(UserError, match="rank 2 does not exist among 2"):
        share(np.arange(3), np.ones(3, np.int64), 2, 2)


def test_examples_are_distributed_in_alternating_direction() -> None:
    sizes = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    assert [sizes[share(np.arange(8), sizes, rank, 2)].tolist() for rank in range(2)] == [[1, 4, 5, 8], [2, 3, 6, 7]]


def test_a_process_may_get_nothing() -> None:
    shares = [share(np.array([4]), np.ones(9, np.int64), rank, 4).tolist() for rank in range(4)]
    assert shares == [[4], [], [], []]


OPTIONS = OrderOptions(max_tokens=60, sort_pool=32)


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
def test_resuming_from_any_step_gives_the_same_batches(step: int, rank: int) -> None:
    split = split_of(60)
    straight = list(islice(batches_from(batches_of(split, rank, 2)), step + 5))
    resumed = batches_of(split, rank, 2)
    again = islice(batches_from(resumed, *locate(resumed.plan, step)), 5)
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


def readers() -> int:
    return sum(thread.name == "lamina-read-ahead" for thread in threading.enumerate())


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert eventually(lambda: readers() == 0)


@pytest.mark.parametrize("depth", [1, 3, 1000])
def test_the_items_are_those_of_the_iterator(depth: int) -> None:
    with ReadAhead(iter(range(200)), depth) as items:
        assert list(items) == list(range(200))
        assert list(items) == []


def test_no_more_than_depth_items_are_made_beforehand() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    with ReadAhead(items(), depth=4) as ahead:
        assert eventually(lambda: len(made) == 5)
        time.sleep(0.1)
        assert len(made) == 5  # four in the queue, one waiting for room
        assert next(ahead) == 0
        assert eventually(lambda: len(made) == 6)


def test_an_error_comes_after_the_items_before_it_and_with_its_own_traceback() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise UserError("line 7 is broken")

    with ReadAhead(items()) as ahead:
        assert next(ahead) == 1
        with pytest.raises(UserError, match="line 7 is broken") as caught:
            next(ahead)
        assert caught.traceback[-1].name == "items"
        with pytest.raises(StopIteration):
            next(ahead)


def test_an_iterator_that_fails_to_close_does_not_hang_the_consumer() -> None:
    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise OSError("the disk is gone")

    with ReadAhead(items()) as ahead, pytest.raises(OSError, match="the disk is gone"):
        list(ahead)


def test_leaving_early_closes_the_iterator() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            closed.set()

    def consume() -> None:
        with ReadAhead(items(), depth=2) as ahead:
            raise ZeroDivisionError(next(ahead))

    with pytest.raises(ZeroDivisionError):
        consume()
    assert closed.is_set()
    assert readers() == 0


def test_the_thread_of_a_garbage_collected_reader_ends() -> None:
    ahead = ReadAhead(iter(range(10**9)), depth=2)
    assert next(ahead) == 0
    assert readers() == 1
    del ahead
    gc.collect()
    assert eventually(lambda: readers() == 0)


def test_closing_twice_is_fine_and_nothing_comes_afterwards() -> None:
    ahead = ReadAhead(iter(range(5)))
    ahead.close()
    ahead.close()
    assert list(ahead) == []


def test_a_depth_below_one_is_refused() -> None:
    with pytest.raises(UserError, match="at least 1"):
        ReadAhead(iter([1]), depth=0)
