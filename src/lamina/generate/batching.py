"""Many sentences, few at a time: like lengths together, memory bounded, the order of the input restored.

A window of sentences is read ahead, sorted by length, and cut into batches of a token budget. Results come out in the
order of the input, each as soon as it and all before it are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[list[int], list[Item]], Iterator[tuple[int, Result]]]
"""A batch of items, with their numbers in the whole input, to each one's place in the batch and its result."""


def in_batches(
    items: Iterable[Item],
    work: Work[Item, Result],
    size: Callable[[Item], tuple[int, ...]],
    max_tokens: int,
    window: int | None = None,
) -> Iterator[Result]:
    """The result of every item. `size` is what the item costs in tokens, part by part: source, start, outputs.

    `window` items are read ahead at most; None reads all of them.
    """
    waiting = iter(items)
    first = 0
    while chunk := list(islice(waiting, window)):
        yield from _window(chunk, first, work, size, max_tokens)
        first += len(chunk)


def _window(
    items: list[Item], first: int, work: Work[Item, Result], size: Callable[[Item], tuple[int, ...]], max_tokens: int
) -> Iterator[Result]:
    sizes = [size(item) for item in items]
    ready: dict[int, Result] = {}
    due = 0
    for batch in cut(sizes, max_tokens):
        for place, result in work([first + at for at in batch], [items[at] for at in batch]):
            ready[batch[place]] = result
        while due in ready:
            yield ready.pop(due)
            due += 1


def cut(sizes: Sequence[tuple[int, ...]], max_tokens: int) -> Iterator[list[int]]:
    """Indices of like sizes, largest first: as many as fit when each gets the room of the largest; one at least.

    That room is part by part: the longest source and the longest output need not be of the same item. The largest
    come first, so that a batch that does not fit the memory is noticed at once.
    """
    batch: list[int] = []
    room: tuple[int, ...] = ()
    for at in sorted(range(len(sizes)), key=lambda at: (sum(sizes[at]), sizes[at]), reverse=True):
        wider = tuple(map(max, room, sizes[at]))
        if batch and (len(batch) + 1) * sum(wider) > max_tokens:
            yield batch
            batch = []
        room = wider if batch else sizes[at]
        batch.append(at)
    if batch:
        yield batch
