"""Decisions and errors of one process reach all of them; none waits for a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lamina.errors import FailedElsewhere, UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs import run as runs
from lamina.runs.run import Run
from lamina.training.callbacks.display import Display
from lamina.training.checkpoint import shards
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.distributed.world import World
from lamina.training.signals import Interrupts
from support.distributed_jobs import CPU, Job, building, job, prepare_toy
from support.processes import run_in_processes

pytestmark = pytest.mark.distributed


def agree(rank: int, count: int, trained: Job, unshared: list[Job], locked: Job, full: list[Job]) -> None:
    """All in one process group. An error that is not shared would leave a process waiting for half an hour."""
    world, began = World(rank, count, CPU), time.monotonic()
    locked_folder(world, locked)
    stale_listing(world, trained)
    disks_of_their_own(world, unshared[rank])
    full_disk(world, full)
    assert time.monotonic() - began < 120, "one process waited for another"


def locked_folder(world: World, locked: Job) -> None:
    """The folder is claimed by the process of the test."""

    @contextmanager
    def joined(device: str) -> Iterator[World]:
        yield world

    runs.join_world = joined  # type: ignore[assignment]
    with pytest.raises(UserError, match="is writing in this folder") as raised:
        Run(locked.config, locked.folder).train(quiet=True)
    assert (type(raised.value) is FailedElsewhere) == (world.rank == 1)


def full_disk(world: World, full: list[Job]) -> None:
    """The first process cannot write: metrics in the first run, samples in the second, the diagnosis in the third."""
    breaks: list[Callable[[RunFolder], None]] = [
        lambda folder: setattr(folder.metrics, "append", no_room),
        lambda folder: setattr(folder.samples, "append", no_room),
        lambda folder: setattr(folder, "training_diagnosis", folder.path / "no such folder" / "file"),
    ]
    for each, break_folder, step in zip(full, breaks, (1, 2, 4), strict=True):
        run = Run(each.config, each.folder)
        if world.is_first:
            break_folder(run.folder.claim())
        try:
            with pytest.raises(UserError, match="another process failed" if world.rank else "No (space|such file)"):
                run.train_as_one_of(world, Display(quiet=True), Interrupts(lambda text: None))
        finally:
            run.folder.release()
        status = run.folder.status()
        assert world.rank or (status is not None and (status.state, status.step) == ("stopped", step))


def no_room(*_: Any) -> None:
    raise UserError("cannot be written (No space left on device)")


def stale_listing(world: World, trained: Job) -> None:
    """The second process does not see the newest checkpoint, as with a stale listing of a network disk."""
    listed = checkpoint.list_checkpoints
    checkpoints = RunFolder(trained.folder).checkpoints
    if world.rank == 1:
        checkpoint.list_checkpoints = lambda folder: listed(folder)[:-1]  # type: ignore[assignment]
    try:
        assert len(checkpoint.list_checkpoints(checkpoints)) == 2 - world.rank
        assert checkpoint.find_latest(checkpoints, world) == checkpoints / "step-00000004"
        training = building(trained, world)
        assert training.step == 4
        training.folder.release()
    finally:
        checkpoint.list_checkpoints = listed  # type: ignore[assignment]


def disks_of_their_own(world: World, mine: Job) -> None:
    """Each process has a folder of its own under the same name, as on disks that are not shared."""
    shards.SECONDS_TO_APPEAR = 0.2
    with pytest.raises(UserError, match=r"process 1 on .* does not see .*train\.parallel=ddp"):
        shards.check_shared(mine.folder / "checkpoints", world)
    assert not list(mine.folder.rglob(".probe*"))

    from lamina.training import loop

    loop.check_shared = lambda *_: None  # type: ignore[assignment] # a disk that is lost later
    training = building(mine, world)
    with pytest.raises(UserError, match=r"shard-00002.*written by process 1 on .* is missing.*train\.parallel=ddp"):
        training.save()
    assert not training.folder.list_checkpoints()
    training.folder.release()

    status: Any = {"state": "finished", "step": 7}
    run = Run(mine.config, mine.folder)
    if world.is_first:
        with run.folder.claim() as folder:
            folder.set_status(**status)
    ended = run.train(quiet=True)
    assert (ended.state, ended.step) == ("finished", 7)
    assert run.ended == ended


def test_what_one_process_decides_or_fails_at_reaches_all(tmp_path: Path) -> None:
    prepare_toy(tmp_path / "toy")
    trained = job(tmp_path, "trained", steps=4, save_every=2)
    Run(trained.config, trained.folder).train(quiet=True)
    unshared = [job(tmp_path, f"disk{rank}", "fsdp") for rank in range(2)]
    locked = job(tmp_path, "locked")
    full = [job(tmp_path, f"full{number}", steps=4, validate_every=2) for number in range(3)]
    full[2].values["diagnose"] = {"every": 2}
    with RunFolder(locked.folder).claim():
        run_in_processes(2, agree, trained, unshared, locked, full)
