"""Replay of one step of a run, seen from inside.

A step is a function of the seed and of the checkpoint before it. So the newest checkpoint before the step is loaded,
the steps up to it are repeated, and the step itself is watched. Everything is done in a temporary folder, with links to
the checkpoints: the run folder is only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lamina.data.batches import Batch
from lamina.data.packed import PackedField
from lamina.diagnosis.watching.alarms import Alarm
from lamina.diagnosis.watching.observation import Observation
from lamina.diagnosis.watching.watch import Watch
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.run_folder.checkpoints import step_of
from lamina.run_folder.folder import RunFolder
from lamina.runs.origin import check_origins
from lamina.tasks.base import Task
from lamina.training.callbacks.display import Display
from lamina.training.distributed.world import World, join_world
from lamina.training.divergence import Diverged
from lamina.training.loop import Training
from lamina.training.update import Update

if TYPE_CHECKING:
    from lamina.runs.run import Run


@dataclass(frozen=True)
class Replay:
    """One step of a run, repeated."""

    run: Path
    step: int
    repeated_from: int
    """The step of the checkpoint that was loaded; 0 if the run was repeated from its start."""
    learning_rate: float
    epoch: int
    batch: int
    """The number of the batch in its epoch."""
    examples: Mapping[int, Mapping[str, str]]
    """The readable fields of every example of the batch, by its index."""
    update: Update | None
    """None if the step diverged."""
    divergence: str
    """Why the step diverged; empty if it did not."""
    observation: Observation | None
    """Gradients, updates and streams; None if the step diverged."""
    alarms: tuple[Alarm, ...]
    recorded_loss: float | None
    """The loss of this step in metrics.jsonl; None if it was not logged."""

    @property
    def is_identical(self) -> bool | None:
        """Whether the loss has the same bits as in the run; None if it was not logged."""
        if self.update is None or self.recorded_loss is None:
            return None
        return self.update.loss == self.recorded_loss


def replay_step(run: Run, step: int, progress: Progress = no_progress) -> Replay:
    """Repeat one step of a run; its folder is not changed."""
    _check_step(run.folder, step)
    check_origins(run.folder, run.config)
    if run.config.train.threads:
        torch.set_num_threads(run.config.train.threads)
    with TemporaryDirectory(prefix="lamina-replay-") as place, join_world(run.config.train.device) as world:
        folder = RunFolder(Path(place))
        folder.claim()  # a step that diverges is described in a file
        try:
            return _replay_in(folder, run, step, world, progress)
        finally:
            folder.release()


def _replay_in(folder: RunFolder, run: Run, step: int, world: World, progress: Progress) -> Replay:
    for place in (folder.checkpoints, folder.diagnosis):
        place.mkdir(exist_ok=True)
    for path in run.folder.list_checkpoints():
        if step_of(path) < step:
            (folder.checkpoints / path.name).symlink_to(path.resolve(), target_is_directory=True)
    training = Training(run.config, run.own_data(), folder, world, Display(quiet=True))
    start = training.step
    shares = training.batches.shares(training.epoch, training.index)
    while training.step < step - 1:
        progress(f"{run.path.name}: steps", training.step - start, step - start)
        training.update(next(shares))
    share, alarms = next(shares), list[Alarm]()
    update, divergence = None, ""
    with Watch(training.model, training.optimiser, every=1, step=training.step, on_warning=alarms.append) as watch:
        try:
            update = training.update(share)
        except Diverged as error:
            divergence = str(error)
    progress(f"{run.path.name}: steps", step - start, step - start)
    numbers = training.batches.plan.epoch(share.epoch)[share.batch]
    return Replay(
        run=run.path,
        step=step,
        repeated_from=start,
        learning_rate=training.schedule(step),
        epoch=share.epoch,
        batch=share.batch,
        examples={int(each): _texts(training.task, share.epoch, share.batch, int(each)) for each in numbers},
        update=update,
        divergence=divergence,
        observation=watch.history[-1] if watch.history else None,
        alarms=tuple(alarms),
        recorded_loss=_recorded_loss(run.folder, step),
    )


def _check_step(folder: RunFolder, step: int) -> None:
    status = folder.status()
    if status is None:
        raise UserError(f"{folder.path}: not a run folder; lamina replay RUN --step N repeats a step of a run")
    last = status.step + (1 if status.state == "failed" else 0)  # the step that diverged was not completed
    if not 1 <= step <= last:
        raise UserError(f"{folder.path}: step {step:,} is not one of the run's; choose one from 1 to {last:,}")


def _recorded_loss(folder: RunFolder, step: int) -> float | None:
    lines: list[dict[str, Any]] = [each for each in folder.metrics.read() if each.get("step") == step]
    return next((float(each["loss"]) for each in lines if isinstance(each.get("loss"), float)), None)


def _texts(task: Task, epoch: int, number: int, example: int) -> Mapping[str, str]:
    """The readable fields of one example; none where a task has none."""
    examples = task.examples("train", training=True)
    chosen = np.array([example])
    fields = {field: PackedField(*examples.gather(field, chosen)) for field in examples.fields}
    try:
        return task.texts(Batch(epoch, number, chosen, fields))
    except NotImplementedError:
        return {}
