"""Processes of one run stop together when one of them is asked to, and exchange gradients once an update."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from lamina.training.checkpoint import storage as checkpoint
from lamina.training.distributed.world import World
from lamina.training.loop import Training
from lamina.training.signals import Interrupts
from support.distributed_jobs import CPU, WAYS, Job, building, job, numbers, prepare_toy, work_together
from support.processes import run_in_processes
from support.small_runs import before_update

pytestmark = pytest.mark.distributed
STEPS = 5


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("together")
    prepare_toy(root / "toy")
    return root


def stopped_by_one(rank: int, count: int, stopped: Job) -> None:
    """A signal reaches the second process alone, in the third step."""
    with Interrupts(lambda text: None) as interrupts:
        training = building(stopped, World(rank, count, CPU), interrupts)

        def signalled(step: int) -> None:
            if step == 3 and rank == 1:
                signal.raise_signal(signal.SIGTERM)

        before_update(training, signalled)
        assert training.run() == ("stopped", "SIGTERM")
        assert training.step == 3
        training.folder.release()


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_to_one_process_stops_all_and_the_run_resumes_bit_for_bit(way: str, root: Path) -> None:
    model = {"dropout": 0.2, "residual": "admin"}
    changes: dict[str, Any] = {"model": model, "accumulate": 2, "steps": STEPS}
    whole_run, parts = (job(root, f"{name}-{way}", way, **changes) for name in ("whole", "parts"))
    run_in_processes(2, work_together, [whole_run])
    run_in_processes(2, stopped_by_one, parts)
    run_in_processes(2, work_together, [parts])
    one, other = (checkpoint.load(each.folder / "checkpoints" / "latest") for each in (whole_run, parts))
    assert one.step == other.step == STEPS
    for ours, theirs in ((one.model, other.model), (one.optimiser, other.optimiser)):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert torch.equal(value, theirs[name]), name
    assert numbers(whole_run.folder) == numbers(parts.folder)


def exchanges(rank: int, count: int, jobs: list[Job]) -> None:
    """The number of gradient exchanges per update, which does not depend on the number of micro-batches."""
    events: list[str] = []

    def counted(state, bucket):  # type: ignore[no-untyped-def] # torch wants real types in hooks, not their names
        events.append("a bucket of copies")
        return allreduce_hook(state, bucket)

    found = []
    for each in jobs:
        training = building(each, World(rank, count, CPU))
        micro_batches = next(training.batches.shares()).micro_batches
        assert len(micro_batches) == each.config.train.accumulate
        network, accumulating = training.parallel.network, training.parallel.accumulating

        @contextmanager
        def watched(last: bool, training: Training = training, within: Any = accumulating) -> Iterator[None]:
            with within(last):
                yield
            if any(parameter.grad is not None for parameter in training.model.parameters()):
                events.append("slices have their gradients")

        if isinstance(network, DistributedDataParallel):
            network.register_comm_hook(None, counted)
        else:
            training.parallel.accumulating = watched  # type: ignore[method-assign]
        events.clear()
        training.backward(micro_batches, 100)
        found.append(len(events))
        training.folder.release()
    assert found[0] > 0
    assert found == found[:1] * len(jobs)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_exchanged_once_an_update_however_many_micro_batches(way: str, root: Path) -> None:
    jobs = [job(root, f"exchanged-{way}-{micro_batches}", way, accumulate=micro_batches) for micro_batches in (1, 2, 3)]
    run_in_processes(2, exchanges, jobs)
