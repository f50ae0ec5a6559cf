"""Errors of one process that all processes raise."""

from __future__ import annotations

import signal
from typing import NoReturn

import pytest
import torch

from lamina.errors import FailedElsewhere
from lamina.training.distributed.failures import SharedFailures
from lamina.training.distributed.world import ALONE, World


class Pair(World):
    """One of two processes; the largest value of the other one is given."""

    other: float = 0

    def largest(self, value: float) -> float:
        return max(value, self.other)


def pair(other: float = 0) -> Pair:
    world = Pair(1, 2, torch.device("cpu"))
    object.__setattr__(world, "other", other)
    return world


def fail() -> NoReturn:
    raise OSError("disk full")


def test_a_process_alone_raises_at_once() -> None:
    with pytest.raises(OSError, match="disk full"):
        SharedFailures(ALONE).attempt(fail)


def test_one_of_several_raises_when_all_agree() -> None:
    failures, done = SharedFailures(pair()), []
    failures.attempt(fail)
    failures.attempt(lambda: done.append(1))
    assert not done, "nothing is done after an error"
    with pytest.raises(OSError, match="disk full"):
        failures.agree(signal.SIGTERM, step=3)
    assert failures.agree(signal.SIGTERM, step=3) == "SIGTERM", "an error is raised once"


def test_the_other_processes_raise_too() -> None:
    with pytest.raises(FailedElsewhere, match="step 1,003: another process failed"):
        SharedFailures(pair(other=1000)).agree(signal.SIGINT, step=1003)


def test_a_signal_of_any_process_is_that_of_all() -> None:
    assert SharedFailures(pair(other=signal.SIGTERM)).agree(0, step=1) == "SIGTERM"
    assert SharedFailures(pair()).agree(signal.SIGUSR1, step=1) == "SIGUSR1"
    assert SharedFailures(pair()).agree(0, step=1) == ""
