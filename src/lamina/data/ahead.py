"""Reading ahead: a thread makes the next few items while the consumer works on this one."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from lamina.errors import UserError

Item = TypeVar("Item")


class _End:
    """The last thing in a queue: why there is no more."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class ReadAhead(Iterator[Item], Generic[Item]):
    """Iterates over `items`, of which up to `depth` are made beforehand in a thread.

    An error of the thread is raised here, after the items that came before it. Leave the `with` block, call `close`, or
    forget the object: the thread ends, and `items` is closed in it.
    """

    def __init__(self, items: Iterator[Item], depth: int = 8) -> None:
        if depth < 1:
            raise UserError(f"reading ahead needs room for at least one batch, not {depth}")
        self._queue: queue.Queue[Item | _End] = queue.Queue(depth)
        self._stop = threading.Event()
        # The thread must not know `self`, or a forgotten reader would never be collected and the thread never end.
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
        """End the thread and wait until it has ended. What was made and not taken is lost."""
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
    except BaseException as raised:  # whatever it is, it belongs to the consumer
        error = raised
    _offer(_End(error), made, stop)


def _offer(item: Item | _End, made: queue.Queue[Item | _End], stop: threading.Event) -> None:
    """Wait for room and put the item in, unless nobody wants it any more."""
    while not stop.is_set():
        try:
            made.put(item, timeout=0.05)
        except queue.Full:
            continue
        return
