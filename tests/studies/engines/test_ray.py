"""The engine of a Ray cluster, on a real one of two nodes on this machine; one worker is killed half-way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.run_folder.folder import RunFolder
from lamina.studies.engines.ray import RayEngine
from support.cluster_runs import parent_of, prepared_run, wait_for_checkpoint

ray = pytest.importorskip("ray")


@pytest.fixture
def cluster() -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
@pytest.mark.distributed
def test_runs_are_trained_on_both_nodes_and_a_lost_worker_is_replaced(cluster: Any, tmp_path: Path) -> None:
    killed, other = prepared_run(tmp_path / "killed", steps=300), prepared_run(tmp_path / "other", steps=2)
    engine = RayEngine(address=cluster.address)
    futures = [engine.submit(path, diagnose=False) for path in (killed, other)]
    worker = wait_for_checkpoint(killed)
    os.kill(parent_of(worker), signal.SIGKILL)
    assert [future.result(timeout=200) for future in futures] == [0, 0]
    engine.shutdown()
    status = RunFolder(killed).status()
    assert status is not None
    assert (status.state, status.step) == ("finished", 300)
    assert not ray.is_initialized(), "the engine leaves the cluster that it joined"
