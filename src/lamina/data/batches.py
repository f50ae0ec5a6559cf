"""Batches of packed tokens: which examples form them, their contents, and a thread that makes them ahead of time.

Which examples form a batch is a pure function of the seed, the epoch and the number of the batch:

    all examples ── shuffled ──▶ pools ── each sorted by size ──▶ one row ── cut ──▶ batches ── shuffled

A batch has at most `max_tokens` tokens, or `batch_examples` examples. Examples of similar size are batched together,
but only within a pool, so that shuffling stays close to uniform. The plan does not depend on the number of processes:
each takes its `share` of a global batch. Epoch and batch number are therefore all that a run has to store to continue.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, overload

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from lamina.data.examples import Examples
from lamina.data.noise import permutation
from lamina.data.packed import Integers, PackedField
from lamina.errors import UserError
from lamina.options import NONE, Formerly, Options, mistake


class OrderOptions(Options):
    """Options of the batches: size, sorting and shuffling."""

    max_tokens: Annotated[int, Field(ge=1)] | None = 4096
    """The number of tokens in a global batch: the sum over its examples of the longer of source and target. If
    `batch_examples` is given, leave it out."""
    batch_examples: PositiveInt | None = None
    """The number of examples in a global batch, in place of `max_tokens`; one batch of an epoch may have fewer. Set
    `sort_pool` to 1 for examples of any length in a batch, as in BERT's fine-tuning."""
    sort_pool: Annotated[int, Formerly("pool")] = Field(8192, ge=1)
    """The number of shuffled examples that are sorted by length before they are cut into batches; 1 for no sorting."""
    oversize: Literal["error", "alone"] = "error"
    """What happens to an example of more than max_tokens: `error` refuses it, `alone` makes it a batch of its own.
    Without effect if `batch_examples` is given."""
    shuffle: bool = True
    """Whether examples and batches are shuffled in every epoch; otherwise they are sorted by size, for evaluation."""

    @classmethod
    def add_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Switch off max_tokens where batches are given as a number of examples, and refuse both."""
        if values.get("batch_examples") is not None and values.setdefault("max_tokens", None) is not None:
            way = f"leave one of them out, or set max_tokens to {NONE}"
            tokens = values["max_tokens"]
            raise mistake(f"max_tokens = {tokens} is given too; {way}", "batch_examples", values["batch_examples"])
        return values

    @model_validator(mode="after")
    def _has_a_size(self) -> Self:
        if self.max_tokens is None and self.batch_examples is None:
            raise ValueError("the size of a batch is not given; set max_tokens or batch_examples")
        return self


class Epoch(Sequence[Integers]):
    """The global batches of one epoch, each an array of example indices."""

    def __init__(self, examples: Integers, bounds: Integers, turns: Integers) -> None:
        self._examples, self._bounds, self._turns = examples, bounds, turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, index: int) -> Integers: ...
    @overload
    def __getitem__(self, index: slice) -> list[Integers]: ...
    def __getitem__(self, index: int | slice) -> Integers | list[Integers]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        turn = self._turns[index]
        return self._examples[self._bounds[turn] : self._bounds[turn + 1]]


class BatchPlan:
    """The global batches of all epochs, over examples of known size."""

    def __init__(
        self,
        sizes: Integers,
        options: OrderOptions,
        seed: int = 0,
        draw: Callable[[int], Integers] | None = None,
    ) -> None:
        """`draw(epoch)` gives the examples of an epoch, in which some may occur twice; by default each occurs once."""
        self.sizes, self.options, self.seed = np.asarray(sizes, np.int64), options, seed
        self._draw = draw or (lambda epoch: np.arange(len(self.sizes)))
        self._last: tuple[int, Epoch] | None = None
        self._check_sizes()

    def epoch(self, epoch: int) -> Epoch:
        """The batches of an epoch, counted from 0. The last epoch that was asked for is cached."""
        last = self._last  # read once: a background thread may call this as well
        if last is None or last[0] != epoch:
            last = self._last = (epoch, self._plan(epoch))
        return last[1]

    def count_batches(self, epochs: int) -> int:
        """The number of batches in the first epochs, each of which is planned."""
        return sum(len(self._plan(epoch)) for epoch in range(epochs))

    def _plan(self, epoch: int) -> Epoch:
        drawn = self._draw(epoch)
        if self.options.shuffle:
            drawn = drawn[permutation(len(drawn), "examples", self.seed, epoch)]
        pool = self.options.sort_pool if self.options.shuffle else max(1, len(drawn))
        examples = _group(drawn, self.sizes, pool)
        bounds = self._cut(examples)
        count = len(bounds) - 1
        turns = permutation(count, "batches", self.seed, epoch) if self.options.shuffle else np.arange(count)
        return Epoch(examples, bounds, turns)

    def _cut(self, examples: Integers) -> Integers:
        """The start of each batch and the end of the last."""
        if self.options.max_tokens is not None:
            return _cut(self.sizes[examples], self.options.max_tokens)
        assert self.options.batch_examples is not None
        return np.append(np.arange(0, len(examples), self.options.batch_examples), len(examples))

    def _check_sizes(self) -> None:
        if len(self.sizes) == 0:
            raise UserError("there are no examples to make batches from")
        if self.options.max_tokens is None:
            return
        largest = int(self.sizes.argmax())
        if self.options.oversize == "error" and self.sizes[largest] > self.options.max_tokens:
            count = int((self.sizes > self.options.max_tokens).sum())
            raise UserError(
                f"example {largest} has {self.sizes[largest]:,} tokens, more than max_tokens = "
                f"{self.options.max_tokens:,} ({count:,} such examples); raise max_tokens, set oversize = 'alone', "
                "or have long examples skipped or truncated when the data is prepared"
            )


def _group(examples: Integers, sizes: Integers, pool: int) -> Integers:
    """Sort each pool by size, every other one in descending order, so that sizes do not jump between pools."""
    pools = np.arange(len(examples)) // pool
    upwards = sizes[examples]
    return examples[np.lexsort((np.where(pools % 2, -upwards, upwards), pools))]


def _cut(sizes: Integers, max_tokens: int) -> Integers:
    """The start of each batch and the end of the last, with as many examples per batch as `max_tokens` allows."""
    totals = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        before = int(totals[start - 1]) if start else 0
        bounds.append(max(start + 1, int(np.searchsorted(totals, before + max_tokens, side="right"))))
    return np.array(bounds, np.int64)


def share(batch: Integers, sizes: Integers, rank: int, processes: int) -> Integers:
    """The examples of a global batch that process `rank` takes; together the processes take each example once.

    Examples are distributed from the largest down, in alternating direction, so that the tokens of two processes differ
    by at most the size of one example. A process gets none if there are fewer examples than processes.
    """
    if not 0 <= rank < processes:
        raise UserError(f"rank {rank} does not exist among {processes} processes; ranks count from 0")
    falling = np.argsort(-sizes[batch], kind="stable")
    places = np.arange(len(batch)) % (2 * processes)
    dealt_to = np.minimum(places, 2 * processes - 1 - places)
    return batch[np.sort(falling[dealt_to == rank])]


@dataclass(frozen=True, eq=False)
class Batch:
    """One process's share of a global batch, with its position in training."""

    epoch: int
    index: int
    """The number of the batch in its epoch."""
    examples: Integers  # (sequences,)
    """The index of each example in the split, which noise is a function of."""
    fields: Mapping[str, PackedField]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, field: str) -> PackedField:
        return self.fields[field]


class Batches:
    """Makes the batches of a plan, in any order: there is no state."""

    def __init__(
        self,
        examples: Examples,
        plan: BatchPlan,
        *,
        rank: int = 0,
        processes: int = 1,
        fields: Sequence[str] | None = None,
    ) -> None:
        self.examples, self.plan = examples, plan
        self.rank, self.processes = rank, processes
        self.fields = tuple(fields or examples.fields)

    def batch(self, epoch: int, index: int) -> Batch:
        """This process's share of one global batch."""
        mine = share(self.plan.epoch(epoch)[index], self.plan.sizes, self.rank, self.processes)
        fields = {field: PackedField(*self.examples.gather(field, mine)) for field in self.fields}
        return Batch(epoch, index, mine, fields)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from index `start` on."""
        for index in range(start, len(self.plan.epoch(epoch))):
            yield self.batch(epoch, index)


Item = TypeVar("Item")


class _End:
    """The last item of a queue, with the error that ended it, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class ReadAhead(Iterator[Item], Generic[Item]):
    """Iterates over `items`, of which a thread makes up to `depth` in advance.

    An error in the thread is raised here, after the items before it. The thread ends, and closes `items`, when the
    `with` block is left, when `close` is called, or when the object is garbage-collected.
    """

    def __init__(self, items: Iterator[Item], depth: int = 8) -> None:
        if depth < 1:
            raise UserError(f"the depth of reading ahead must be at least 1, not {depth}")
        self._queue: queue.Queue[Item | _End] = queue.Queue(depth)
        self._stop = threading.Event()
        # The thread must not refer to `self`, or the reader would never be garbage-collected and the thread never end.
        self._thread = threading.Thread(
            target=_fill, args=(items, self._queue, self._stop), name="lamina-read-ahead", daemon=True
        )
        self._finish = weakref.finalize(self, self._stop.set)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if self._stop.is_set():
            raise StopIteration
        item = self._queue.get()
        if not isinstance(item, _End):
            return item
        self.close()
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """End the thread and wait for it. Items that were made and not taken are lost."""
        self._finish()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fill(items: Iterator[Item], made: queue.Queue[Item | _End], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        try:
            while not stop.is_set():
                _offer(next(items), made, stop)
        finally:
            if isinstance(items, Generator):
                items.close()
    except StopIteration:
        pass
    except BaseException as raised:  # whatever it is, the consumer raises it
        error = raised
    _offer(_End(error), made, stop)


def _offer(item: Item | _End, made: queue.Queue[Item | _End], stop: threading.Event) -> None:
    """Put an item into the queue, waiting for space, unless the consumer has stopped."""
    while not stop.is_set():
        try:
            made.put(item, timeout=0.05)
        except queue.Full:
            continue
        return
