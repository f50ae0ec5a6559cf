"""Trackers: the values of metrics.jsonl are also sent to TensorBoard or Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.training.callbacks.base import Callback

if TYPE_CHECKING:
    from lamina.training.loop import Training

TrackerName = Literal["tensorboard", "wandb"]


class TensorBoard(Callback):
    """Writes event files to the run folder, for `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        self._module = _load("torch.utils.tensorboard", "tensorboard")
        self._writer: Any = None

    def on_start(self, training: Training) -> None:
        if training.world.is_first:  # events of later steps, written before the run was resumed, are dropped
            self._writer = self._module.SummaryWriter(str(training.folder.tensorboard), purge_step=training.step + 1)

    def on_log(self, training: Training, values: Mapping[str, Any]) -> None:
        if self._writer is not None:
            for name, value in _numbers(values).items():
                self._writer.add_scalar(name, value, training.step)

    def on_end(self, training: Training) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(Callback):
    """Logs to a W&B run of the same name, which is resumed with this run.

    Data is sent to the service that wandb is configured for. The id of the W&B run is stored in the run folder, because
    the names of runs repeat from one comparison to the next.
    """

    def __init__(self) -> None:
        self._module = _load("wandb", "wandb")
        self._run: Any = None

    def on_start(self, training: Training) -> None:
        if not training.world.is_first:
            return
        path, identity = training.folder.path, training.folder.wandb_id
        if not identity.exists():
            write_file(identity, uuid4().hex.encode())
        self._run = self._module.init(
            project="lamina", name=path.name, id=identity.read_text(), dir=str(path), resume="allow"
        )

    def on_log(self, training: Training, values: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.log(_numbers(values), step=training.step)

    def on_end(self, training: Training) -> None:
        if self._run is not None:
            self._run.finish()


TRACKERS: dict[TrackerName, type[TensorBoard] | type[WeightsAndBiases]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def require_trackers(names: Sequence[TrackerName]) -> None:
    """Refuse trackers whose package is not installed, before any work is done."""
    for name in names:
        TRACKERS[name]()


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UserError(f"train.track: {package} is not installed; pip install 'lamina[track]'") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
