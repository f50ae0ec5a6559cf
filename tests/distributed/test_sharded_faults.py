"""Faults in sharded training: damaged shards, kills, full disks, values that are not finite."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.distributed.world import World
from support.distributed_jobs import CPU, WAYS, Job, assert_same_run, building, job, prepare_toy, work_together
from support.processes import run_in_processes

pytestmark = [pytest.mark.distributed, pytest.mark.faults]


def usual(root: Path, name: str) -> Job:
    return job(root, name, "fsdp", model={"residual": "dlcl"}, steps=6, save_every=2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on two processes and the same run on one, both without faults."""
    root = tmp_path_factory.mktemp("trouble")
    prepare_toy(root / "toy")
    run_in_processes(2, work_together, [usual(root, "sharded")])
    alone = usual(root, "alone")
    Run(alone.config, alone.folder).train(quiet=True)
    return root


def test_a_flipped_bit_in_any_shard_is_noticed_and_the_one_before_is_used(root: Path, tmp_path: Path) -> None:
    checkpoints = Path(shutil.copytree(root / "sharded" / "checkpoints", tmp_path / "checkpoints", symlinks=True))
    newest, before = checkpoints / "step-00000006", checkpoints / "step-00000004"
    shards = sorted(newest.glob("*/*.safetensors"))
    assert len(shards) == 4
    for shard in shards:
        whole_file = shard.read_bytes()
        for damaged in (flipped(whole_file, len(whole_file) // 2), flipped(whole_file, 3), whole_file[:-1], None):
            shard.unlink() if damaged is None else shard.write_bytes(damaged)
            with pytest.warns(UserWarning, match=f"{shard.name}.*The checkpoint before it is used"):
                assert checkpoint.find_latest(checkpoints) == before
            shard.write_bytes(whole_file)
        added = shard.with_name("shard-00003-model-00001-of-00001.safetensors")
        shutil.copy(shard, added)
        with pytest.raises(UserError, match="not in the manifest"):
            checkpoint.load(newest)
        added.unlink()
    checkpoint.load(newest)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def one_sees_no_number(rank: int, count: int, wrong: Job) -> None:
    """From the third step on, the output of a layer is NaN, but only in the second process."""
    training = building(wrong, World(rank, count, CPU))

    def spoil(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output * torch.nan if rank == 1 and training.step >= 2 else output

    model: Any = training.model
    model.decoder.layers[1].sublayers[2].inner.register_forward_hook(spoil)
    state, reason = training.run()
    assert state == "failed"
    assert " of step 3 (" in reason  # the gradient's where the second process has a micro-batch of weight zero
    assert reason.endswith("first in the output of decoder.layers.1.sublayers.2.inner"), reason


def one_has_a_full_disk(rank: int, count: int, full: Job) -> None:
    training = building(full, World(rank, count, CPU))
    training.update(next(training.batches.shares()))
    training.save()
    training.step = 2
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, unlimited[1]))
    with pytest.raises(UserError, match=r"step-00000002: the checkpoint could not be saved \(.*File too large"):
        training.save()
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    dist.barrier()
    assert [each.name for each in sorted(training.folder.checkpoints.glob("*step*"))] == ["step-00000001"]


def test_a_nan_in_any_process_is_located(root: Path, tmp_path: Path) -> None:
    for way in WAYS:
        wrong = job(root, f"wrong-{way}", way)
        run_in_processes(2, one_sees_no_number, wrong)
        report = json.loads((wrong.folder / "diagnosis" / "failure.json").read_text())
        assert report["step"] == 3
        assert checkpoint.load(wrong.folder / "checkpoints" / "latest").step == 2


def test_a_full_disk_in_one_process_stops_all_and_spares_the_checkpoint_before(root: Path) -> None:
    full = job(root, "full", "fsdp")
    run_in_processes(2, one_has_a_full_disk, full)
    assert checkpoint.load(full.folder / "checkpoints" / "step-00000001").step == 1


def killed_in_a_save(rank: int, count: int, killed: Job, victims: tuple[int, ...]) -> None:
    training = building(killed, World(rank, count, CPU))
    write = HuggingFaceStorageWriter.write_data

    def write_and_die(*arguments: Any) -> Any:
        written = write(*arguments)
        if training.step == 4 and rank in victims:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    HuggingFaceStorageWriter.write_data = write_and_die  # type: ignore[method-assign]
    training.run()


@pytest.mark.parametrize("victims", [(1,), (0, 1)])
def test_the_previous_checkpoint_survives_a_kill_during_a_save(victims: tuple[int, ...], root: Path) -> None:
    killed = usual(root, f"killed-{len(victims)}")
    with pytest.raises((ProcessExitedException, ProcessRaisedException)):
        run_in_processes(2, killed_in_a_save, killed, victims)
    saved = checkpoint.find_latest(killed.folder / "checkpoints")
    assert saved is not None
    assert saved.name == "step-00000002"
    Run(killed.config, killed.folder).train(quiet=True)
    assert_same_run(root / "alone", killed.folder)
