"""Signals that ask a run to save and stop: recorded when they arrive, handled after the current step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)

_early: list[int] = []
"""Signals that arrived before a run could handle them."""


@contextmanager
def remember_early() -> Iterator[None]:
    """Record signals until a run handles them: importing torch takes seconds, and no signal may be lost meanwhile.

    Ctrl-C still ends the process at once, because nothing has been computed yet.
    """
    early = [each for each in SIGNALS if each != signal.SIGINT and signal.getsignal(each) == signal.SIG_DFL]
    for each in early:
        signal.signal(each, _remember_early)
    try:
        yield
    finally:
        _early.clear()
        for each in early:
            signal.signal(each, signal.SIG_DFL)


def _remember_early(number: int, frame: FrameType | None) -> None:
    _early.append(number)


class Interrupts:
    """A context in which these signals do not end the process; a Ctrl-C after another signal ends it at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.number = 0  # of the first signal; 0 if there was none
        self._say = say
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
        heard = [each for each in SIGNALS if not (ignored and each == signal.SIGHUP)]
        self._former = {each: signal.signal(each, self._remember) for each in heard}
        if _early and not self.number:
            self.number = _early[0]
        _early.clear()
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._former.items():
            signal.signal(each, handler)

    def request(self) -> None:
        """Have the run stop as after SIGTERM: it is saved after the current step and can be resumed."""
        self.number = self.number or signal.SIGTERM

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = self.number or number
        with suppress(RuntimeError):  # it arrived while a line was being printed
            self._say(f"{signal.Signals(number).name}: stopping when this step is done and saved; Ctrl-C stops at once")
