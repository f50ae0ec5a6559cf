"""Windows, batches and order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from lamina.generate.search import cut, in_batches


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
