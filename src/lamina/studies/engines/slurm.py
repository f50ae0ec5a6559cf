"""The engine of a Slurm cluster, by means of submitit: every run is a job.

A job that is preempted or reaches its time limit saves its run and is put back into the queue; one that is lost is
submitted again. Partition, account, time limit and so on are those of `sbatch`'s own environment variables, such as
SBATCH_PARTITION. All nodes must see the run folders and the data under the same paths.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.run_folder.status import REQUEUE
from lamina.studies.engines.process import end_worker, start_worker, worker_command

RETRIES = 3
"""The number of times that a run whose job was lost is submitted again."""
POLL_SECONDS = 1.0
MINUTES = 24 * 60
"""The time limit of a job, unless SBATCH_TIMELIMIT is set."""


class TrainingJob:
    """What a job does: train a run in a process of its node."""

    def __init__(self, run: Path, threads: int, diagnose: bool) -> None:
        self.run, self.threads, self.diagnose = run, threads, diagnose
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        self._process = start_worker(self.run, worker_command(self.run, self.threads, self.diagnose))
        return self._process.wait()

    def checkpoint(self) -> Any:
        """Called by submitit when the job is about to be preempted or has reached its time limit."""
        from submitit.helpers import DelayedSubmission

        if self._process is not None:
            end_worker(self._process)
        return DelayedSubmission(TrainingJob(self.run, self.threads, self.diagnose))


@dataclass
class SubmittedRun:
    """A run whose job is waiting, or is being executed."""

    work: TrainingJob
    job: Any
    outcome: Future[int] = field(default_factory=Future)
    submissions: int = 1


class SlurmEngine:
    """An `Engine` that submits a job for every run."""

    def __init__(self, folder: Path, threads: int = 1, gpus: int = 0, cluster: str | None = None) -> None:
        """folder: for the files of submitit. cluster: `slurm`, or `local` for processes of this machine."""
        try:
            import submitit
        except ImportError as error:
            raise UserError("the engine slurm needs submitit; install it with pip install 'lamina[slurm]'") from error
        try:
            self._executor = submitit.AutoExecutor(folder, cluster=cluster or "slurm")
        except RuntimeError as error:
            raise UserError(f"the engine slurm: {error}; start it where sbatch can be called") from error
        self._executor.update_parameters(
            name="lamina", timeout_min=MINUTES, cpus_per_task=threads, gpus_per_node=gpus, tasks_per_node=1, nodes=1
        )
        self.threads = threads
        self._runs: list[SubmittedRun] = []
        self._closed = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)
        self._polling.start()

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        work = TrainingJob(run.resolve(), self.threads, diagnose)
        submitted = SubmittedRun(work, self._executor.submit(work))
        submitted.outcome.set_running_or_notify_cancel()
        self._runs.append(submitted)
        return submitted.outcome

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the jobs that have not ended; their runs continue from their latest checkpoints another time."""
        self._closed.set()
        self._polling.join()
        for each in self._runs:
            if not each.outcome.done():
                each.job.cancel()
                each.outcome.set_result(REQUEUE)

    def _poll(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            for each in list(self._runs):
                if not each.outcome.done() and each.job.done():
                    self._settle(each)

    def _settle(self, run: SubmittedRun) -> None:
        """Take the exit code of a job; submit it again if it was lost."""
        import submitit

        try:
            run.outcome.set_result(run.job.result())
        except submitit.core.utils.UncompletedJobError:
            if run.submissions > RETRIES:
                run.outcome.set_result(-signal.SIGKILL)
                return
            run.job, run.submissions = self._executor.submit(run.work), run.submissions + 1
