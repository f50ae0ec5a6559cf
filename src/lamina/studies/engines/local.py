"""The local engine: runs are trained in parallel on this machine, each in its own process.

A worker that is killed does not affect the others. When the engine's process ends for any reason, its workers end too:
each waits for the other end of a pipe to close, then saves and exits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from lamina.errors import UserError
from lamina.run_folder.status import REQUEUE
from lamina.runs.run import Run
from lamina.studies.engines.process import end_worker, start_worker, worker_command

MEMORY_SHARE = 0.7  # of the machine's memory, for all workers together
PROCESS_MEMORY = 400 * 2**20  # bytes of a process before it has a model


class LocalEngine:
    """An `Engine` that trains up to `workers` runs at a time, each with `threads` threads."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.workers, self.threads = workers, threads
        self._pool = ThreadPoolExecutor(workers)
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def for_runs(cls, count: int, largest: Run) -> Self:
        """One core per run, as far as memory allows: two runs of one thread are faster than one run of two threads.

        If the memory cannot be planned, as with an adaptive softmax, it does not limit the number of workers.
        """
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        workers = min(count, cores)
        with suppress(UserError):
            needed = largest.plan().memory + PROCESS_MEMORY
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            workers = max(1, min(workers, int(total * MEMORY_SHARE // needed)))
        return cls(workers, max(1, cores // workers))

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        return self._pool.submit(self._train, run, diagnose)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=False, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        for process in processes:
            process.terminate()  # all of them, before any is waited for
        for process in processes:
            end_worker(process)
        self._pool.shutdown(wait)

    def _train(self, run: Path, diagnose: bool) -> int:
        with self._lock:
            if self._closed:
                return REQUEUE
            process = start_worker(run, self.command(run, diagnose))
            self._processes.add(process)
        code = process.wait()
        self._processes.discard(process)
        return code

    def command(self, run: Path, diagnose: bool = True) -> tuple[str, ...]:
        """The command that trains a run."""
        return worker_command(run, self.threads, diagnose)
