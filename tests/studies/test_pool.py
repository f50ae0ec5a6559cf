"""Processes side by side: so many at a time, their words in files, and none left when the pool ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamina.studies.engines.local import Job, run_jobs


def job(folder: Path, name: str, program: str) -> Job:
    return Job(name, (sys.executable, "-c", program), folder / name / "log.txt")


def test_codes_and_words(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "good", "print('done')"), job(tmp_path, "bad", "import sys; sys.exit('no room')")]
    assert run_jobs(jobs, 2, lambda active: None) == {"good": 0, "bad": 1}
    assert (tmp_path / "good/log.txt").read_text() == "done\n"
    assert (tmp_path / "bad/log.txt").read_text() == "no room\n"


def test_never_more_than_there_are_workers(tmp_path: Path) -> None:
    seen: list[set[str]] = []
    run_jobs([job(tmp_path, f"job{number}", "pass") for number in range(5)], 2, lambda active: seen.append(active))
    assert max(len(active) for active in seen) == 2
    assert set().union(*seen) == {f"job{number}" for number in range(5)}
    assert seen[-1] == set()


def test_an_error_of_the_watcher_ends_the_workers(tmp_path: Path) -> None:
    def interrupt(active: set[str]) -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job(tmp_path, "long", program)], 1, interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text() or 0) or os.getpid() + 10**8, 0)


@pytest.mark.faults
def test_a_pool_that_is_killed_takes_its_workers_along(tmp_path: Path) -> None:
    """The worker is the real one; what it would train is not there, so it is held up by a fifo."""
    os.mkfifo(tmp_path / "config.toml")  # opening it blocks until somebody writes
    program = (
        "from pathlib import Path\nfrom lamina.studies.engines.local import Job, run_jobs\n"
        "from lamina.studies.worker import command\n"
        f"run = Path({str(tmp_path)!r})\n"
        "run_jobs([Job('run', command(run, 1), run / 'log.txt')], 1, lambda active: None)\n"
    )
    pool = subprocess.Popen([sys.executable, "-c", program])
    worker = _wait_for_child(pool.pid)
    time.sleep(0.5)
    pool.send_signal(signal.SIGKILL)
    pool.wait()
    for _ in range(300):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its pool")


def _wait_for_child(parent: int) -> int:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    for _ in range(300):
        found = children.read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.1)
    pytest.fail("the pool started no worker")
