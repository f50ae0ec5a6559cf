"""Signals that ask a run to save and stop: remembered when they arrive, obeyed after the current step."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupts:
    """A context in which these signals do not end the process; a Ctrl-C after another signal ends it at once."""

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
        with suppress(RuntimeError):  # it arrived while a line was being printed
            self._say(f"{signal.Signals(number).name}: leaving when this step is done and saved; Ctrl-C leaves at once")
