"""The local engine: a limited number of processes, their output in files, and none left when the engine ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lamina.studies.engines.local import LocalEngine


class Played(LocalEngine):
    """Runs the same program for every run folder, which is its argument."""

    def __init__(self, workers: int, program: str) -> None:
        super().__init__(workers)
        self.program = program

    def command(self, run: Path, diagnose: bool = True) -> tuple[str, ...]:
        return (sys.executable, "-c", self.program, str(run))


def test_the_result_is_the_exit_code_and_the_output_is_logged(tmp_path: Path) -> None:
    engine = Played(2, "import sys; sys.exit('no room' if sys.argv[1].endswith('bad') else print('done'))")
    good, bad = engine.submit(tmp_path / "good"), engine.submit(tmp_path / "bad")
    assert (good.result(), bad.result()) == (0, 1)
    assert (tmp_path / "good/log.txt").read_text() == "done\n"
    assert (tmp_path / "bad/log.txt").read_text() == "no room\n"
    engine.shutdown()


def test_never_more_than_there_are_workers(tmp_path: Path) -> None:
    """Each process notes when it starts and when it ends."""
    note = "open(sys.argv[1] + '/../times', 'a').write"
    engine = Played(2, f"import sys, time; {note}('+'); time.sleep(0.2); {note}('-')")
    futures = [engine.submit(tmp_path / f"run{number}") for number in range(5)]
    assert [future.result() for future in futures] == [0] * 5
    engine.shutdown()
    active = [0]
    for sign in (tmp_path / "times").read_text():
        active.append(active[-1] + (1 if sign == "+" else -1))
    assert max(active) == 2
    assert active[-1] == 0


def test_shutting_down_ends_the_workers_and_starts_no_other(tmp_path: Path) -> None:
    engine = Played(1, "import sys, time; open(sys.argv[1] + '/began', 'w'); time.sleep(600)")
    first, second = engine.submit(tmp_path / "first"), engine.submit(tmp_path / "second")
    while not (tmp_path / "first" / "began").exists():
        time.sleep(0.05)
    engine.shutdown(cancel_futures=True)
    assert first.result() == -signal.SIGTERM
    assert second.cancelled()
    assert not (tmp_path / "second").exists()


@pytest.mark.faults
def test_workers_end_when_their_engine_is_killed(tmp_path: Path) -> None:
    """The worker is the real one, but it trains nothing: reading its config blocks, because that is a fifo."""
    os.mkfifo(tmp_path / "config.toml")  # opening it blocks until somebody writes
    program = (
        "from pathlib import Path\nfrom lamina.studies.engines.local import LocalEngine\n"
        f"LocalEngine(1).submit(Path({str(tmp_path)!r})).result()\n"
    )
    engine = subprocess.Popen([sys.executable, "-c", program])
    worker = _wait_for_child(engine.pid)
    time.sleep(0.5)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    for _ in range(300):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its engine")


def _wait_for_child(parent: int) -> int:
    """The first child of any thread of the process."""
    for _ in range(600):
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended meanwhile
                if found := children.read_text().split():
                    return int(found[0])
        time.sleep(0.1)
    os.kill(parent, signal.SIGKILL)
    pytest.fail("the engine started no worker")
