"""Other places to follow a run: TensorBoard, Weights & Biases. `metrics.jsonl` is written always, these by choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import uuid4

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.run_folder.folder import RunFolder

Name = Literal["tensorboard", "wandb"]


class Tracker(Protocol):
    def append(self, step: int, values: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder, for `tensorboard --logdir runs`."""

    def __init__(self, folder: Path, done: int) -> None:
        module = _load("torch.utils.tensorboard", "tensorboard")
        self._writer = module.SummaryWriter(str(RunFolder(folder).tensorboard), purge_step=done + 1)

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        for name, value in _numbers(values).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of the same name, resumed with it. It sends data to the service it is set up for: that is its purpose.

    Its identity is kept in the run folder, for names repeat from one comparison to the next.
    """

    def __init__(self, folder: Path, done: int) -> None:
        module, identity = _load("wandb", "wandb"), RunFolder(folder).wandb_id
        if not identity.exists():
            write_file(identity, uuid4().hex.encode())
        self._run = module.init(
            project="lamina", name=folder.name, id=identity.read_text(), dir=str(folder), resume="allow"
        )

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        self._run.log(_numbers(values), step=step)

    def close(self) -> None:
        self._run.finish()


KINDS: dict[Name, type[TensorBoard] | type[WeightsAndBiases]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def open_trackers(names: Sequence[Name], folder: Path, done: int) -> list[Tracker]:
    """For a run of which so many steps are done: what was heard of later ones is forgotten, where that can be."""
    return [KINDS[name](folder, done) for name in names]


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UserError(f"train.track: {package} is not installed; pip install 'lamina[track]'") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
