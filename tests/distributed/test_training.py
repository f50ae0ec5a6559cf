"""Training on two and four processes, replicated and sharded: the same updates as on one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.config import to_toml
from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.callbacks.display import Display
from lamina.training.distributed.parallel import full_tensor
from lamina.training.distributed.world import ALONE, World
from lamina.training.loop import Training
from support.distributed_jobs import CPU, STEPS, WAYS, Job, assert_same_run, job, numbers, prepare_toy, work_together
from support.processes import run_in_processes

pytestmark = pytest.mark.distributed
SCHEMES = ("admin", "resi-dual", "dlcl")


def same_run(way: str, scheme: str, root: Path, name: str) -> Job:
    return job(root, f"{name}-{way}-{scheme}", way, model={"residual": scheme}, clip=0.5)


def mixed(way: str, root: Path, steps: int) -> Job:
    """A run resumed with another number of processes each time; three micro-batches per update, of unequal sizes."""
    return job(root, f"mixed-{way}", way, model={"residual": "admin"}, steps=steps, accumulate=3)


def others(root: Path) -> list[Job]:
    """Other settings that must work with sharding, each with the same run replicated."""
    kinds: dict[str, dict[str, Any]] = {
        "fp16": {"precision": "fp16"},
        "bf16": {"precision": "bf16"},
        "recomputed": {"model": {"checkpoint_layers": True}},
        "sgd": {"optimiser": {"name": "sgd"}},
        "radam": {"optimiser": {"name": "radam"}},
        "metric": {"best": "metric", "validate_every": 4, "save_every": 2},
    }
    return [job(root, f"{kind}-{way}", way, **changes) for kind, changes in kinds.items() for way in WAYS]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs: on one process, on two, on four, and on one again."""
    root = tmp_path_factory.mktemp("distributed")
    prepare_toy(root / "toy")
    for alone in [
        *(same_run("ddp", scheme, root, "one") for scheme in SCHEMES),
        job(root, "unmixed", model={"residual": "admin"}, accumulate=3),
        *(mixed(way, root, 2) for way in WAYS),
    ]:
        Run(alone.config, alone.folder).train(quiet=True)
    on_two = [same_run(way, scheme, root, "two") for way in WAYS for scheme in SCHEMES]
    run_in_processes(2, work_together, [*on_two, *(mixed(way, root, 4) for way in WAYS), *others(root)])
    run_in_processes(4, work_together, [mixed(way, root, 6) for way in WAYS] + [same_run("fsdp", "dlcl", root, "four")])
    for way in WAYS:
        Run(mixed(way, root, STEPS).config, root / f"mixed-{way}").train(quiet=True)
    return root


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_as_one(way: str, scheme: str, root: Path) -> None:
    assert_same_run(root / f"one-ddp-{scheme}", root / f"two-{way}-{scheme}")


def test_four_processes_train_as_one(root: Path) -> None:
    """A scheme with parameters of one element: three of four processes hold no part of them."""
    assert_same_run(root / "one-ddp-dlcl", root / "four-fsdp-dlcl")


@pytest.mark.parametrize("way", WAYS)
def test_the_number_of_processes_may_change_between_resumes(way: str, root: Path) -> None:
    """A run of one process is resumed with two, with four and with one: its batches stay the same."""
    assert_same_run(root / "unmixed", root / f"mixed-{way}")


@pytest.mark.parametrize("kind", ["fp16", "bf16", "recomputed", "sgd", "radam", "metric"])
def test_sharded_and_replicated_models_train_the_same(kind: str, root: Path) -> None:
    assert_same_run(root / f"{kind}-ddp", root / f"{kind}-fsdp", tolerance=1e-3 if kind in ("fp16", "bf16") else 1e-5)


def test_samples_and_metrics_of_sharded_and_replicated_models_are_the_same(root: Path) -> None:
    samples = [list(RunFolder(root / f"metric-{way}").samples.read()) for way in WAYS]
    assert samples[0] == samples[1]
    assert len(samples[0]) == 2
    assert numbers(root / "metric-fsdp", "valid_bleu") == pytest.approx(numbers(root / "metric-ddp", "valid_bleu"))
    assert len(numbers(root / "metric-fsdp", "valid_bleu")) == 2


def test_a_sharded_run_is_read_by_everything_that_reads_runs(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "metric-fsdp", tmp_path / "run", symlinks=True))
    latest = folder / "checkpoints" / "latest"
    assert sorted(each.name for each in latest.iterdir() if each.is_dir()) == ["model", "optimiser"]
    assert len(list((latest / "model").iterdir())) == 2
    scores = Run(folder).load("latest").evaluate().scores["valid"]
    assert scores["nll"] == pytest.approx(numbers(folder, "valid_nll")[-1], rel=1e-5)
    Run(folder).average(3)
    assert Run(folder).load("average").evaluate().scores["valid"]["nll"] == pytest.approx(scores["nll"], rel=0.1)


def gradients(rank: int, count: int, jobs: list[Job], dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    for each in jobs:
        found = gradient(each, World(rank, count, CPU))
        if rank == 0:
            save_file(found, f"{each.folder}.safetensors")


def gradient(job: Job, world: World) -> dict[str, torch.Tensor]:
    """The gradient of the first batch of 32 sequences, divided in any way."""
    training = Training(
        job.config, Store.open(job.config.data.store or ""), RunFolder(job.folder), world, Display(True)
    )
    micro_batches = next(training.batches.shares()).micro_batches
    assert sum(len(micro_batch.lengths["source_lengths"]) for micro_batch in micro_batches) == 32 // world.size
    assert len(micro_batches) == job.config.train.accumulate
    total = int(world.total(sum(micro_batch.count for micro_batch in micro_batches)))
    training.backward(micro_batches, total)
    return {name: full_tensor(each.grad) for name, each in training.model.named_parameters() if each.grad is not None}


def of_32(root: Path, name: str, way: str = "ddp", **changes: Any) -> Job:
    made = job(root, name, way, **changes)
    return made._replace(values=made.values | {"data": {"store": str(root / "32"), "max_tokens": 9999}})


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_the_gradient_of_32_sequences_does_not_depend_on_their_division(
    dtype: torch.dtype, tolerance: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """1 × 32, 32 × 1, and two processes with 16 each, in micro-batches or not; label smoothing on, dropout off."""
    if dtype == torch.float64:
        request.getfixturevalue("float64")
    prepare_toy(tmp_path / "32", size=32)
    shared = [
        of_32(tmp_path, f"{way}-{micro_batches}", way, accumulate=micro_batches)
        for way in WAYS
        for micro_batches in (1, 16)
    ]
    run_in_processes(2, gradients, shared, dtype)
    found = {each.folder.name: load_file(f"{each.folder}.safetensors") for each in shared}
    found["32 × 1"] = gradient(of_32(tmp_path, "micro-batches", accumulate=32), ALONE)
    expected = gradient(of_32(tmp_path, "whole"), ALONE)
    size = max(each.abs().max().item() for each in expected.values())
    assert size > 0.01
    for way, ours in found.items():
        assert ours.keys() == expected.keys()
        for name, value in expected.items():
            assert value.dtype == ours[name].dtype == dtype
            assert torch.allclose(ours[name], value, atol=tolerance * size, rtol=tolerance), (way, name)


def test_the_command_under_torchrun(root: Path) -> None:
    launched = job(root, "launched", "fsdp", steps=2)
    (root / "launched.toml").write_text(to_toml(launched.config))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    lamina = [
        sys.executable,
        "-m",
        "lamina",
        "train",
        str(root / "launched.toml"),
        "--folder",
        str(launched.folder),
    ]
    ran = subprocess.run(
        [sys.executable, *launcher, *lamina], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert len(list((launched.folder / "checkpoints" / "latest" / "model").iterdir())) == 2
    assert ran.stdout.count("launched: ") == 1, "only the first process prints the summary"
