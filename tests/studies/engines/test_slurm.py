"""The engine of submitit, with its executor for this machine; one job is killed half-way, one is shut down."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import REQUEUE
from lamina.studies.engines.slurm import SlurmEngine
from support.cluster_runs import has_ended, parent_of, prepared_run, wait_for_checkpoint

pytest.importorskip("submitit")


def test_where_there_is_no_slurm_the_engine_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sbatch"):
        SlurmEngine(tmp_path)


@pytest.mark.slow
@pytest.mark.distributed
def test_a_lost_job_is_submitted_again(tmp_path: Path) -> None:
    killed, other = prepared_run(tmp_path / "killed", steps=300), prepared_run(tmp_path / "other", steps=2)
    engine = SlurmEngine(tmp_path / "jobs", cluster="local")
    futures = [engine.submit(path, diagnose=False) for path in (killed, other)]
    os.kill(parent_of(wait_for_checkpoint(killed)), signal.SIGKILL)
    assert [future.result(timeout=200) for future in futures] == [0, 0]
    engine.shutdown()
    status = RunFolder(killed).status()
    assert status is not None
    assert (status.state, status.step) == ("finished", 300)


@pytest.mark.slow
@pytest.mark.distributed
def test_shutting_down_cancels_the_jobs(tmp_path: Path) -> None:
    run = prepared_run(tmp_path / "run", steps=100_000)
    engine = SlurmEngine(tmp_path / "jobs", cluster="local")
    future = engine.submit(run, diagnose=False)
    worker = wait_for_checkpoint(run)
    engine.shutdown(cancel_futures=True)
    assert future.result() == REQUEUE
    for _ in range(600):
        if has_ended(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its job")
