"""Signals that interrupt a run: they are noted, and the run saves and ends after the present step."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupts:
    """A context manager in which these signals are noted; a second Ctrl-C ends the process at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.number = 0  # of the first signal; 0 if there was none
        self._say = say
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._former = {each: signal.signal(each, self._remember) for each in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._former.items():
            signal.signal(each, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = self.number or number
        with suppress(RuntimeError):  # the signal came while a line was being printed
            self._say(f"{signal.Signals(number).name}: leaving when this step is done and saved; Ctrl-C leaves at once")
