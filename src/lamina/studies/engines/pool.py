"""The engine of many short runs: processes of this machine that train one run after another.

A process that is started for every run takes seconds to import torch, more than a short run takes. A process that is
killed is replaced; the run that it trained ends with its exit code. Runs are not diagnosed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import REQUEUE
from lamina.studies.engines.process import end_worker


class PoolEngine:
    """An `Engine` of up to `workers` processes with `threads` threads each."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.workers, self.threads = workers, threads
        self._pool = ThreadPoolExecutor(workers)
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, run: Path, *, diagnose: bool = False) -> Future[int]:
        if diagnose:
            raise UserError("this engine trains short runs and diagnoses none; submit with diagnose=False")
        return self._pool.submit(self._train, run)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=False, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()  # then it saves its run and ends
        for process in processes:
            end_worker(process)
        self._pool.shutdown(wait)

    def command(self) -> tuple[str, ...]:
        """The command of a process that reads the paths of runs."""
        return (sys.executable, "-m", "lamina.studies.worker", "--threads", str(self.threads))

    def _train(self, run: Path) -> int:
        RunFolder(run).path.mkdir(parents=True, exist_ok=True)
        process = self._take_process()
        if process is None:
            return REQUEUE
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{run.resolve()}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline()
        except (OSError, ValueError):  # it was killed, or the engine was shut down
            answer = b""
        if not answer:
            self._processes.discard(process)
            return process.wait()
        self._idle.put(process)
        return int(answer)

    def _take_process(self) -> subprocess.Popen[bytes] | None:
        """A process without a run; None if the engine was shut down."""
        with self._lock:
            if self._closed:
                return None
            try:
                return self._idle.get_nowait()
            except Empty:
                process = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self._processes.add(process)
                return process
