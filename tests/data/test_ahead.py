"""Reading ahead: the same items, a bounded number of them, errors passed on, and no thread left behind."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lamina.data.ahead import ReadAhead
from lamina.errors import UserError


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


def test_a_forgotten_reader_ends_by_itself() -> None:
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


def test_no_room_is_refused() -> None:
    with pytest.raises(UserError, match="at least one"):
        ReadAhead(iter([1]), depth=0)
