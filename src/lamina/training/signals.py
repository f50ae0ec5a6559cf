"""Signals that ask a run to save and leave: remembered when they come, obeyed when the step in hand is done."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupts:
    """A context manager: within it these signals end nothing, but Ctrl-C leaves at once where a stop is under way."""

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
        with suppress(RuntimeError):  # it came while a line was being printed: nothing is said
            self._say(f"{signal.Signals(number).name}: leaving when this step is done and saved; Ctrl-C leaves at once")
