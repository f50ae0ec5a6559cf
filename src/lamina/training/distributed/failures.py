"""Errors and signals of one process that end the run in all processes."""

from __future__ import annotations

import signal
from collections.abc import Callable

from lamina.errors import FailedElsewhere
from lamina.training.distributed.world import World

_FAILED = 1000
"""The number that stands for an error where processes compare the numbers of the signals they received."""


class SharedFailures:
    """Errors that occur in one process only, such as those of a write of the first one.

    The other processes would wait for that process at the next collective call. So its error is kept until the end of
    the step, when all processes compare signals and errors by one call.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._failure: Exception | None = None

    def attempt(self, work: Callable[[], None]) -> None:
        """Do something that may fail in one process only; nothing is done after an error."""
        if self._world.size == 1:
            work()
        elif self._failure is None:
            try:
                work()
            except Exception as error:
                self._failure = error

    def agree(self, number: int, step: int) -> str:
        """The name of the signal that any process received, empty if there was none; raises an error of any in all.

        `number` is that of the signal which this process received, 0 for none.
        """
        largest = int(self._world.largest(_FAILED if self._failure else number))
        if self._failure is not None:
            failure, self._failure = self._failure, None  # callbacks are ended next
            raise failure
        if largest == _FAILED:
            raise FailedElsewhere(f"step {step:,}: another process failed")
        return signal.Signals(largest).name if largest else ""
