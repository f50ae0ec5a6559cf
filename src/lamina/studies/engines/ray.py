"""The engine of a Ray cluster: every run is a task with its own processors and GPUs, on any node.

Ray starts a task again if its worker or its node is lost, and the run continues from its latest checkpoint. All nodes
must see the run folders and the data under the same paths. Ray's usage report is off.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.studies.engines.process import train_in_process

RETRIES = 3
"""The number of times that a run whose worker was lost is started again."""


class RayEngine:
    """An `Engine` of a Ray cluster: the one that `RAY_ADDRESS` names, else one on this machine alone."""

    def __init__(self, threads: int = 1, gpus: float = 0.0, address: str | None = None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
        except ImportError as error:
            raise UserError("the engine ray needs Ray; install it with pip install 'lamina[ray]'") from error
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        if self._started:
            found = address or os.environ.get("RAY_ADDRESS")
            handler = signal.getsignal(signal.SIGTERM)
            ray.init(address=found, log_to_driver=False, include_dashboard=None if found else False)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray's own would end the process without a word
        self.threads = threads
        options = {"num_cpus": threads, "num_gpus": gpus, "max_retries": RETRIES}
        self._train = ray.remote(train_in_process).options(**options)
        self._tasks: dict[Future[int], Any] = {}

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        task = self._train.remote(str(run.resolve()), self.threads, diagnose)
        outcome: Future[int] = Future()
        outcome.set_running_or_notify_cancel()
        self._tasks[outcome] = task
        task.future().add_done_callback(lambda ended: outcome.set_result(self._code(ended)))
        return outcome

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the tasks, whose processes save their runs, and leave the cluster if this engine joined it."""
        for outcome, task in self._tasks.items():
            if not outcome.done():
                self._ray.cancel(task)
        if wait:
            self._ray.wait(list(self._tasks.values()), num_returns=len(self._tasks)) if self._tasks else None
        if self._started:
            self._ray.shutdown()

    def _code(self, ended: Future[int]) -> int:
        """The exit code; a run whose worker was lost too often counts as killed."""
        try:
            return ended.result()
        except self._ray.exceptions.RayError:
            return -signal.SIGKILL
