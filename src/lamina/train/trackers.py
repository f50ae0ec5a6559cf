"""Other places to follow a run: TensorBoard, Weights & Biases. `metrics.jsonl` is written always, these by choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from lamina.errors import UserError

Name = Literal["tensorboard", "wandb"]


class Tracker(Protocol):
    def append(self, step: int, values: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder, for `tensorboard --logdir runs`."""

    def __init__(self, folder: Path) -> None:
        self._writer = _load("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        for name, value in _numbers(values).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of the same name, resumed with it. It sends data to the service it is set up for: that is its purpose."""

    def __init__(self, folder: Path) -> None:
        self._run = _load("wandb", "wandb").init(
            project="lamina", name=folder.name, id=folder.name, dir=str(folder), resume="allow"
        )

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        self._run.log(_numbers(values), step=step)

    def close(self) -> None:
        self._run.finish()


KINDS: dict[Name, type[TensorBoard] | type[WeightsAndBiases]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def open_trackers(names: Sequence[Name], folder: Path) -> list[Tracker]:
    return [KINDS[name](folder) for name in names]


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UserError(f"train.track: {package} is not installed; pip install 'lamina[track]'") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
