"""Runs of a few steps on small stores of every task, and their interruption."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.training.callbacks.display import Display
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.config import RunConfig
from lamina.training.distributed.world import ALONE
from lamina.training.loop import Training
from lamina.training.signals import Interrupts
from support.small_tasks import small_options, small_store


@cache
def store_for(task: str, folder: Path) -> Store:
    return small_store(task, folder, 400, train=80, valid=8)


def config_for(task: str, stores: Path, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "task": task,
        "task_options": small_options(task, 32) | ({"word_dropout": 0.1} if task == "translation" else {}),
        "data": {"store": str(store_for(task, stores).folder), "max_tokens": 200, "oversize": "alone"},
        "model": {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 2, "residual": "post-ln"},
        "schedule": {"learning_rate": 1e-3, "warmup_steps": 3},
        "train": {"steps": 6, "validate_every": 0, "save_every": 2, "log_every": 1, "samples": 1},
    }
    for key, value in changes.items():
        values[key] = values[key] | value if isinstance(value, dict) and key in values else value
    return RunConfig.read(values, where="test")


def building(config: RunConfig, folder: RunFolder, interrupts: Interrupts | None = None) -> Training:
    return Training(config, Store.open(config.data.store or ""), folder, ALONE, Display(quiet=True), interrupts)


def before_update(training: Training, act: Callable[[int], None]) -> None:
    """Have `act` called with the number of every step, just before its update."""
    update = training.update

    def act_and_update(micro_batches: Any) -> Any:
        act(training.step + 1)
        return update(micro_batches)

    training.update = act_and_update  # type: ignore[method-assign]


def interrupted(config: RunConfig, folder: Path, after: int) -> None:
    """Run until a signal comes in during step `after`."""
    with RunFolder(folder).claim() as claimed, Interrupts(lambda text: None) as interrupts:
        training = building(config, claimed, interrupts)
        before_update(training, lambda step: signal.raise_signal(signal.SIGTERM) if step == after else None)
        assert training.run() == ("stopped", "SIGTERM")


def weights(folder: Path, which: str = "latest") -> dict[str, torch.Tensor]:
    return dict(checkpoint.load_model(folder / "checkpoints" / which))


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def lines(folder: Path, name: str) -> list[tuple[int, Any]]:
    """Step and value of every line of the metrics that has it."""
    return [(line["step"], line[name]) for line in RunFolder(folder).metrics.read() if name in line]


def state_of(training: Training) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def spoiled(training: Training, value: float, from_step: int = 1) -> str:
    """Multiply the gradient of one matrix by `value`, such as NaN, from a step on; returns the matrix's name."""
    name = "decoder.layers.1.sublayers.2.inner.weight"

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * value if training.step + 1 >= from_step else gradient

    training.model.get_parameter(name).register_hook(spoil)
    return name
