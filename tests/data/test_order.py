"""The order of batches: complete, within budget, the same for any number of processes, and resumable anywhere."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.order import BatchPlan, OrderOptions, share
from lamina.data.packed import score_padding
from lamina.data.randomness import permutation
from lamina.errors import UserError

sizes_of_examples = st.lists(st.integers(1, 40), min_size=1, max_size=120)


def plan_of(sizes: list[int], seed: int = 0, **options: object) -> BatchPlan:
    return BatchPlan(np.array(sizes), OrderOptions.read({"max_tokens": 40, "pool": 16, **options}, "test"), seed)


@given(sizes_of_examples, st.integers(40, 90), st.integers(1, 50), st.integers(0, 5), st.booleans())
def test_every_example_comes_once_an_epoch_and_no_batch_exceeds_the_budget(
    sizes: list[int], budget: int, pool: int, epoch: int, shuffle: bool
) -> None:
    batches = plan_of(sizes, max_tokens=budget, pool=pool, shuffle=shuffle).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert all(0 < np.array(sizes)[batch].sum() <= budget for batch in batches)


@given(sizes_of_examples, st.integers(0, 3), st.sampled_from([1, 2, 3, 4, 7]))
def test_processes_only_slice_a_global_batch(sizes: list[int], epoch: int, processes: int) -> None:
    plan = plan_of(sizes)
    for batch in plan.epoch(epoch):
        shares = [share(batch, plan.sizes, rank, processes) for rank in range(processes)]
        assert sorted(np.concatenate(shares).tolist()) == sorted(batch.tolist())
        tokens = [int(plan.sizes[mine].sum()) for mine in shares]
        assert max(tokens) - min(tokens) <= plan.sizes[batch].max()


@given(sizes_of_examples)
def test_two_processes_have_between_them_what_four_have(sizes: list[int]) -> None:
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
    epoch, index = resumed.locate(step)
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
    batches = plan_of(sizes, 5, max_tokens=200, pool=256).epoch(3)
    digest = hashlib.sha256(repr([batch.tolist() for batch in batches]).encode()).hexdigest()
    assert digest == "e1928cff62f11c193694314fb22bdce2e7fa9056f57afb809d9058059e3bbee4"


def test_grouping_by_length_saves_scores_and_is_bounded_by_the_pool() -> None:
    sizes = (1 + np.random.default_rng(0).geometric(1 / 20, 4000)).clip(max=200)

    def padding(pool: int) -> float:
        batches = BatchPlan(sizes, OrderOptions(max_tokens=1000, pool=pool)).epoch(0)
        return float(np.mean([score_padding(sizes[batch]) for batch in batches]))

    grouped, loose, ungrouped = padding(4000), padding(500), padding(1)
    assert grouped < 0.1 < ungrouped
    assert grouped < loose < ungrouped


def test_a_pool_is_a_bound_on_how_far_examples_move() -> None:
    """A batch holds examples of one pool of the shuffle, or of two where pools meet."""
    place = np.argsort(permutation(400, "examples", 0, 0))
    for batch in plan_of([1 + i % 39 for i in range(400)], pool=50).epoch(0):
        assert np.ptp(place[batch] // 50) <= 1


def test_an_example_beyond_the_budget_is_named() -> None:
    with pytest.raises(UserError, match=r"example 2 has 90 tokens.*max_tokens = 40 \(2 such examples\).*alone"):
        plan_of([3, 50, 90, 4])


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_by_choice_it_goes_alone(sizes: list[int]) -> None:
    batches = plan_of(sizes, oversize="alone").epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or np.array(sizes)[batch].sum() <= 40


def test_without_shuffling_examples_come_by_size() -> None:
    sizes = [5, 3, 9, 1, 7]
    batches = plan_of(sizes, shuffle=False, max_tokens=9)
    assert [batch.tolist() for batch in batches.epoch(0)] == [[3, 1, 0], [4], [2]]
    assert [batch.tolist() for batch in batches.epoch(7)] == [[3, 1, 0], [4], [2]]


def test_nothing_to_batch_and_a_rank_that_is_none_are_errors() -> None:
    with pytest.raises(UserError, match="no examples"):
        plan_of([])
    with pytest.raises(UserError, match="rank 2 does not exist among 2"):
        share(np.arange(3), np.ones(3, np.int64), 2, 2)


def test_examples_are_dealt_to_and_fro() -> None:
    sizes = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    assert [sizes[share(np.arange(8), sizes, rank, 2)].tolist() for rank in range(2)] == [[1, 4, 5, 8], [2, 3, 6, 7]]


def test_a_process_may_get_nothing() -> None:
    shares = [share(np.array([4]), np.ones(9, np.int64), rank, 4).tolist() for rank in range(4)]
    assert shares == [[4], [], [], []]
