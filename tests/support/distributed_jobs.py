"""Small runs that several processes train together, and how two runs are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.callbacks.display import Display
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World
from lamina.training.loop import Training
from lamina.training.signals import Interrupts

WAYS = ("ddp", "fsdp")
STEPS = 8
CPU = torch.device("cpu")


def prepare_toy(folder: Path, size: int = 60) -> None:
    sets = {"train": [f"translation:{size}"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(folder), tokenizer={"size": 400}, **sets))


class Job(NamedTuple):
    """A session of a run."""

    folder: Path
    values: dict[str, Any]

    @property
    def config(self) -> RunConfig:
        return RunConfig.read(self.values, where="test")


def job(root: Path, name: str, way: str = "ddp", *, model: Any = None, optimiser: Any = None, **changes: Any) -> Job:
    values = {
        "data": {"store": str(root / "toy"), "max_tokens": 120, "oversize": "alone"},
        "model": {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 2, "dropout": 0.0}
        | (model or {}),
        "optimiser": optimiser or {},
        "schedule": {"name": "constant", "learning_rate": 1e-3},
        "train": {"steps": STEPS, "save_every": 0, "validate_every": 0, "log_every": 1, "samples": 1, "parallel": way}
        | changes,
    }
    return Job(root / name, values)


def work_together(rank: int, count: int, jobs: list[Job]) -> None:
    world = World(rank, count, CPU)
    for each in jobs:
        run = Run(each.config, each.folder)
        if world.is_first:
            run.folder.claim()
        try:
            run.train_as_one_of(world, Display(quiet=True), Interrupts(lambda text: None))
        finally:
            run.folder.release()
        dist.barrier()


def building(job: Job, world: World, interrupts: Interrupts | None = None) -> Training:
    folder = RunFolder(job.folder)
    if world.is_first:
        folder.claim()
    store = Store.open(job.config.data.store or "")
    return Training(job.config, store, folder, world, Display(quiet=True), interrupts)


def numbers(folder: Path, name: str = "loss") -> list[float]:
    return [line[name] for line in RunFolder(folder).metrics.read() if name in line]


KEY_BIAS = ".key.bias"
"""The end of the name of a parameter whose true gradient is zero: it adds the same number to all scores of a query,
which the softmax ignores. Its computed gradient is rounding error alone, and Adam, which divides a gradient by its
size, turns that into steps as large as the learning rate. So key biases differ between runs that are otherwise the
same, and no output depends on them."""


def assert_same_run(one: Path, other: Path, tolerance: float = 1e-5) -> None:
    """Losses, weights and optimiser agree; of key biases only the optimiser's state, which stays near zero."""
    for name in ("loss", "gradient_norm"):
        assert numbers(other, name) == pytest.approx(numbers(one, name), rel=10 * tolerance), name
    assert len(numbers(one)) == len(numbers(other)) > 4
    assert numbers(other, "valid_nll")[-1] == pytest.approx(numbers(one, "valid_nll")[-1], rel=tolerance)
    first, second = (checkpoint.load(folder / "checkpoints" / "latest") for folder in (one, other))
    for ours, theirs in ((first.model, second.model), (first.optimiser, second.optimiser)):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            if name.endswith(KEY_BIAS):
                continue
            torch.testing.assert_close(
                theirs[name].to(value.dtype),
                value,
                atol=tolerance,
                rtol=tolerance,
                msg=lambda text, n=name: f"{n} {text}",
            )
