"""The pool: processes that serve one run after another, are replaced when killed, and end with the engine."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.status import REQUEUE
from lamina.studies.engines.pool import PoolEngine

SERVING = """
import os, sys
for line in sys.stdin:
    name = os.path.basename(line.strip())
    if name == "killed":
        os.kill(os.getpid(), 9)
    while name == "long":
        __import__("time").sleep(0.05)
        open(line.strip() + "/began", "w").write(str(os.getpid()))
    open(line.strip() + "/served", "w").write(str(os.getpid()))
    print(3 if name == "bad" else 0, flush=True)
"""


class PlayedPool(PoolEngine):
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-c", SERVING)


def test_one_process_trains_many_runs(tmp_path: Path) -> None:
    engine = PlayedPool(1)
    codes = [engine.submit(tmp_path / name).result() for name in ("one", "bad", "three")]
    engine.shutdown()
    assert codes == [0, 3, 0]
    processes = {(tmp_path / name / "served").read_text() for name in ("one", "bad", "three")}
    assert len(processes) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(processes.pop()), 0)


def test_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    engine = PlayedPool(1)
    assert [engine.submit(tmp_path / name).result() for name in ("killed", "next")] == [-signal.SIGKILL, 0]
    engine.shutdown()


def test_shutting_down_ends_a_process_amid_a_run(tmp_path: Path) -> None:
    engine = PlayedPool(1)
    running, waiting = engine.submit(tmp_path / "long"), engine.submit(tmp_path / "waiting")
    while not (tmp_path / "long/began").exists():
        time.sleep(0.02)
    engine.shutdown(cancel_futures=True)
    assert running.result() == -signal.SIGTERM
    assert waiting.cancelled()
    with suppress(ValueError), pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "long/began").read_text()), 0)


def test_after_the_end_nothing_is_started(tmp_path: Path) -> None:
    engine = PlayedPool(1)
    engine.shutdown()
    assert engine._train(tmp_path / "late") == REQUEUE


def test_runs_that_are_to_be_diagnosed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="diagnoses none"):
        PoolEngine(1).submit(tmp_path, diagnose=True)
