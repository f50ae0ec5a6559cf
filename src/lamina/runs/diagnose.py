"""Diagnoses of a config or of a run.

A config is measured at the start, over seeds, on real batches of its task. A run is measured at the start too, and at a
checkpoint, over batches, with the state of its optimiser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.diagnosis.examine import examine
from lamina.diagnosis.recording.passes import random_state_kept
from lamina.diagnosis.results import Diagnosis, Stage
from lamina.diagnosis.subject import OUTPUT_DEPTHS, Subject
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import AVERAGE, LATEST, step_of
from lamina.run_folder.folder import RunFolder
from lamina.runs.runs import load, open_store, read_config
from lamina.runs.stored_diagnoses import is_stored, stored_diagnoses
from lamina.tasks import build_task
from lamina.tasks.base import Inputs, Task
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.config import RunConfig
from lamina.training.distributed.world import join_world
from lamina.training.optimisers import build_optimiser, set_learning_rate
from lamina.training.schedule import build_schedule

NO_CHECKPOINT = (
    "no checkpoint of this run was saved, so only its start is shown; train.save_every = 100 saves some early"
)


@dataclass(frozen=True)
class Extent:
    """How much is looked at."""

    seeds: int = 5
    batches: int = 4
    tokens: int = 256
    """In each batch. Four such batches at each of five seeds are enough for every measure to settle."""
    checkpoint: str = "best"
    depths: bool = True
    """Whether models of other depths are made too, for the measures that compare them: most of the time goes there."""
    output_depths: tuple[int, ...] = OUTPUT_DEPTHS
    """The numbers of layers at which the change of the output is measured."""


def diagnose_run_or_config(
    path: Path, changes: Sequence[str], extent: Extent, progress: Progress = no_progress
) -> Iterator[Diagnosis]:
    """The diagnoses of a config, of a run folder or of a file of diagnoses; those of a run are stored in its folder."""
    for subject in subjects_of(path, changes, extent):
        diagnosis = examine(subject, seeds=extent.seeds, progress=progress)
        if path.is_dir():
            folder, step = RunFolder(path), diagnosis.stage.step
            diagnosis.write(folder.start_diagnosis if step is None else folder.step_diagnosis(step))
        yield diagnosis
    yield from stored_diagnoses(path)


def subjects_of(path: Path, changes: Sequence[str], extent: Extent) -> Iterator[Subject]:
    """One of a config; of a run its start and its checkpoint; none of a file of diagnoses.

    A checkpoint is opened when it is asked for: whatever is wrong with it, the start has been seen by then.
    """
    if is_stored(path):
        return
    if not path.is_dir():
        yield _start(path.stem, read_config(path, list(changes)), RunFolder(f"runs/{path.stem}"), extent)
        return
    folder = RunFolder(path)
    if folder.status() is None or not folder.config.is_file():
        raise UserError(
            f"{path}: neither a run folder ({folder.config.name} and {folder.status_file.name}) nor a model "
            "(config.json and safetensors); there is "
            + (", ".join(sorted(each.name for each in path.iterdir())[:8]) or "nothing in it")
        )
    if changes:
        raise UserError(f"{path}: a run is looked at as it was trained; {changes[0]} needs a config file")
    saved = _saved(folder, extent.checkpoint)
    start = _start(path.name, read_config(path, []), folder, extent)
    if saved is None:
        start.notes.append(NO_CHECKPOINT)
    yield start
    if saved is not None:
        yield _trained(folder, saved, extent)


def read_depths(words: str) -> tuple[int, ...]:
    """`2,8,32`, as the command line has it."""
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise UserError(f"depths are numbers of layers, separated by commas, such as 2,8,32, not {words!r}") from None


def _start(name: str, config: RunConfig, folder: RunFolder, extent: Extent) -> Subject:
    """The config's models, new at every seed."""
    task = build_task(config.task, open_store(config, folder), config.task_options)
    inputs = _batches(task, config, extent)

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        chosen = dict(config.chosen_model())
        if num_layers is not None:
            chosen["num_layers"] = num_layers
        torch.manual_seed(seed)
        model = Transformer.build(task.model_options(chosen)).to(inputs[0].device)
        task.calibrate(model, inputs[0])
        return model

    return Subject(
        name,
        _passes(task, inputs),
        factory=factory,
        any_depth=extent.depths,
        depths=extent.output_depths,
        learning_rate=None if config.optimiser.name == "sgd" else config.schedule.learning_rate,
        thresholds=config.diagnose.thresholds,
    )


def _trained(folder: RunFolder, saved: Path, extent: Extent) -> Subject:
    task, model = load(folder.path, extent.checkpoint)
    config = read_config(folder.path, [])
    inputs = _batches(task, config, extent)
    model.train().to(inputs[0].device)
    averaged = extent.checkpoint == AVERAGE
    return Subject(
        folder.path.name,
        _passes(task, inputs),
        model=model,
        optimiser=None if averaged else _optimiser(config, task, model, checkpoint.load(saved)),
        stage=Stage(name="step", step=step_of(saved)),
        thresholds=config.diagnose.thresholds,
    )


def _saved(folder: RunFolder, which: str) -> Path | None:
    """The folder of a checkpoint: the latest where there is no best one, or for an average; None if none was saved."""
    if not folder.list_checkpoints():
        return None
    return folder.find_checkpoint(LATEST if which == AVERAGE else which)


def _optimiser(config: RunConfig, task: Task, model: Transformer, snapshot: Snapshot) -> Optimizer:
    """As the checkpoint has it, at the rate of its last step."""
    optimiser = build_optimiser(config.optimiser, model)
    with random_state_kept():  # which is restored, too
        snapshot.restore(model, optimiser)
    epoch = len(task.batches("train", config.data, seed=config.seed).plan.epoch(0))
    schedule = build_schedule(config.schedule, total_steps=config.train.steps, steps_per_epoch=epoch)
    set_learning_rate(optimiser, schedule(max(1, snapshot.step)))
    return optimiser


def _batches(task: Task, config: RunConfig, extent: Extent) -> list[Inputs]:
    """The first batches that training would see, cut smaller, on the config's device."""
    order = config.data.model_copy(update={"max_tokens": extent.tokens, "oversize": "alone"})
    batches = task.batches("train", order, seed=config.seed)
    count = min(extent.batches, len(batches.plan.epoch(0)))
    with join_world(config.train.device) as world:
        return [task.inputs(batches.batch(0, at), seed=config.seed).to(world.device) for at in range(count)]


def _passes(task: Task, inputs: Sequence[Inputs]) -> list[partial[Tensor]]:
    return [partial(_mean_loss, task, each) for each in inputs]


def _mean_loss(task: Task, inputs: Inputs, model: nn.Module) -> Tensor:
    losses = task.losses(model, inputs)
    return losses.smoothed / losses.count
