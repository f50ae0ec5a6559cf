"""Diagnoses of configs and of runs.

A config's model is measured at initialisation, over seeds, on batches of its task. A run is measured at initialisation
too, and at a checkpoint, over batches, with the state of its optimiser. A model that was imported is measured as it is,
on random tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.data.store import Store
from lamina.data.synthetic.random_store import random_store
from lamina.diagnosis.examine import examine
from lamina.diagnosis.factories import widths_below
from lamina.diagnosis.measurement import Stage
from lamina.diagnosis.recording.passes import random_state_kept
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.subject import OUTPUT_DEPTHS, Subject
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import AVERAGE, BEST, LATEST, step_of
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.starting_point import StartingPoint
from lamina.tasks import build_task
from lamina.tasks.base import Inputs, Task
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.config import RunConfig
from lamina.training.distributed.world import join_world
from lamina.training.length import planned_steps
from lamina.training.optimisers import build_optimiser, set_learning_rate
from lamina.training.schedule import build_schedule
from lamina.training.start_from import Start, find_start

if TYPE_CHECKING:
    from lamina.runs.run import Run

NO_CHECKPOINT = (
    "no checkpoint of this run was saved, so only its start is shown; train.save_every = 100 saves some early"
)

RANDOM_TOKENS = (
    "the model was imported and has no data: the batches are random tokens; on real text activations may differ"
)
RANDOM_LENGTH = 32
"""The number of tokens of a random sequence."""


@dataclass(frozen=True)
class Extent:
    """The extent of a diagnosis: numbers of seeds, batches and tokens, the checkpoint, and depths."""

    seeds: int = 5
    """Number of models that are initialised, each with its own seed."""
    batches: int = 4
    """Number of batches that each model is run on."""
    tokens: int = 256
    """Number of tokens in each batch. Four such batches at each of five seeds give stable values of every measure."""
    checkpoint: str = BEST
    """The checkpoint of a run: `best`, `latest`, `average` or `step-…`."""
    depths: bool = True
    """Whether models of other depths and widths are built for the measures that compare them, which take most of the
    time."""
    output_depths: tuple[int, ...] = OUTPUT_DEPTHS
    """The numbers of layers at which the change of the output is measured."""
    learning_rate: float | None = None
    """The highest learning rate of training; None for that of the config."""
    warmup: int | None = None
    """The number of steps of its warm-up; None for that of the config."""
    quick: bool = False
    """Whether the measures that take most of the time are left out."""


def diagnose_run(run: Run, extent: Extent, progress: Progress = no_progress) -> Iterator[Diagnosis]:
    """Measure a run at initialisation and at a checkpoint, and store both; its watch's diagnosis comes last."""
    for subject in subjects_of(run, extent, progress):
        diagnosis = examine(subject, seeds=extent.seeds, quick=extent.quick, progress=progress)
        step = diagnosis.stage.step
        diagnosis.write(run.folder.start_diagnosis if step is None else run.folder.step_diagnosis(step))
        yield diagnosis
    run.folder.warn_of_changes(run.folder.training_diagnosis)
    if run.folder.training_diagnosis.is_file():
        yield _watched(run.folder)


def _watched(folder: RunFolder) -> Diagnosis:
    """The diagnosis of the watch; refused if its file holds one of initialisation or of a checkpoint."""
    diagnosis = Diagnosis.read(folder.training_diagnosis)
    if "training" in diagnosis.lacks:
        raise UserError(
            f"{folder.training_diagnosis}: a diagnosis {diagnosis.stage}, not of the training; move it away"
        )
    return diagnosis


def diagnose_config(run: Run, extent: Extent, progress: Progress = no_progress) -> Diagnosis:
    """Measure the models of a run that need not have been started; nothing is written into its folder."""
    subject = subject_at_initialisation(run, run.open_store(progress), extent)
    return examine(subject, seeds=extent.seeds, quick=extent.quick, progress=progress)


def subjects_of(run: Run, extent: Extent, progress: Progress = no_progress) -> Iterator[Subject]:
    """The run at initialisation and, if it has one, at a checkpoint.

    The checkpoint is read only when it is asked for: if it is damaged, the first diagnosis has been made by then.
    """
    saved = _find_checkpoint(run.folder, extent.checkpoint)
    if saved is not None and run.own_data().is_empty:
        yield _imported(run, extent)
        return
    start = subject_at_initialisation(run, run.open_store(progress) if saved is None else run.own_data(), extent)
    if saved is None:
        start.notes.append(NO_CHECKPOINT)
    yield start
    if saved is not None:
        yield _at_checkpoint(run, saved, extent)


def subject_at_initialisation(run: Run, store: Store, extent: Extent) -> Subject:
    """The subject that builds a model of the config for every seed."""
    config = run.config
    task = build_task(config.task, store, config.task_options)
    inputs = _batches(task, config, extent)
    start, notes = _find_start(run, store)

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        chosen = config.model if num_layers is None else config.model.model_copy(update={"num_layers": num_layers})
        torch.manual_seed(seed)
        model = Transformer.build(task.model_options(chosen)).to(inputs[0].device)
        task.calibrate(model, inputs[0])
        if start is not None and num_layers is None:
            start.load_into(model, accept=config.start_from_differences == "accept")
        return model

    def of_width(width: int) -> nn.Module:
        share = width / options.model_dim
        sizes = {"model_dim": width, "feed_forward_dim": max(1, round(share * options.feed_forward_dim))}
        torch.manual_seed(1)
        model = Transformer.build(task.model_options(config.model.model_copy(update=sizes))).to(inputs[0].device)
        task.calibrate(model, inputs[0])
        return model

    options = task.model_options(config.model)
    any_size = extent.depths and start is None  # trained weights are of one size
    adaptive = config.optimiser.choose().is_adaptive
    return Subject(
        run.path.name,
        _passes(task, inputs),
        factory=factory,
        any_depth=any_size,
        of_width=of_width if any_size else None,
        widths=widths_below(options.model_dim, multiple_of=2 * options.num_heads),
        notes=notes,
        depths=extent.output_depths,
        learning_rate=extent.learning_rate or (config.schedule.learning_rate if adaptive else None),
        optimiser=partial(_new_optimiser, config),
        warmup=config.schedule.warmup if extent.warmup is None else extent.warmup,
        thresholds=config.diagnose.thresholds,
    )


def _new_optimiser(config: RunConfig, model: nn.Module) -> Optimizer:
    """The optimiser before its first step, at the highest learning rate of the schedule."""
    assert isinstance(model, Transformer)
    optimiser = build_optimiser(config.optimiser, model)
    set_learning_rate(optimiser, config.schedule.learning_rate)
    return optimiser


def _find_start(run: Run, store: Store) -> tuple[Start | None, list[str]]:
    """The weights that a run starts from, if they can still be read, and a note about them."""
    where = run.config.start_from
    if where is None:
        return None, []
    try:
        start = find_start(run.config, store)
    except UserError as error:
        return None, [f"the start is that of models initialised at random, because start_from cannot be read: {error}"]
    recorded = StartingPoint.load(run.folder.started_from)
    if recorded is not None and start is not None and recorded.sha256 != start.sha256:
        return None, [f"the start is that of models initialised at random: {where} has other weights than it had"]
    return start, [f"all weights but a new output layer are those of {where} at the start"]


def _at_checkpoint(run: Run, saved: Path, extent: Extent) -> Subject:
    run.load(extent.checkpoint)
    inputs = _batches(run.task, run.config, extent)
    model = run.model.train().to(inputs[0].device)
    averaged = extent.checkpoint == AVERAGE
    return Subject(
        run.path.name,
        _passes(run.task, inputs),
        model=model,
        optimiser=None if averaged else _optimiser(run.config, run.task, model, checkpoint.load(saved)),
        stage=Stage(name="step", step=step_of(saved)),
        thresholds=run.config.diagnose.thresholds,
    )


def _imported(run: Run, extent: Extent) -> Subject:
    """An imported model, which has neither data nor an optimiser, on random tokens."""
    run.load(extent.checkpoint)
    options = run.model.options
    length = min(RANDOM_LENGTH, options.max_length // 2) if options.positions == "learned" else RANDOM_LENGTH
    with TemporaryDirectory(prefix="lamina-") as folder:
        store = random_store(run.task.store, Path(folder, "store"), examples=extent.tokens, length=length)
        task = build_task(run.config.task, store, run.config.task_options)
        inputs = _batches(task, run.config, extent)
    return Subject(
        run.path.name,
        _passes(task, inputs),
        model=run.model.train().to(inputs[0].device),
        stage=Stage(name="given", step=0),
        thresholds=run.config.diagnose.thresholds,
        learning_rate=extent.learning_rate,
        warmup=extent.warmup,
        notes=[RANDOM_TOKENS],
    )


def _find_checkpoint(folder: RunFolder, which: str) -> Path | None:
    """The folder of a checkpoint; for an average, that of the latest one; None if none was saved."""
    if not folder.list_checkpoints():
        return None
    return folder.find_checkpoint(LATEST if which == AVERAGE else which)


def _optimiser(config: RunConfig, task: Task, model: Transformer, snapshot: Snapshot) -> Optimizer:
    """The optimiser in the state of a checkpoint, with the learning rate of its step."""
    optimiser = build_optimiser(config.optimiser, model)
    with random_state_kept():  # the snapshot would restore the random state of training
        snapshot.restore(model, optimiser)
    plan = task.plan("train", config.data, config.seed)
    schedule = build_schedule(
        config.schedule, total_steps=planned_steps(config, plan), steps_per_epoch=len(plan.epoch(0))
    )
    set_learning_rate(optimiser, schedule(max(1, snapshot.step)))
    return optimiser


def _batches(task: Task, config: RunConfig, extent: Extent) -> list[Inputs]:
    """The first training batches, of fewer tokens, on the config's device."""
    order = config.data.model_copy(update={"max_tokens": extent.tokens, "batch_examples": None, "oversize": "alone"})
    batches = task.batches("train", order, seed=config.seed)
    count = min(extent.batches, len(batches.plan.epoch(0)))
    with join_world(config.train.device) as world:
        return [task.inputs(batches.batch(0, at), seed=config.seed).to(world.device) for at in range(count)]


def _passes(task: Task, inputs: Sequence[Inputs]) -> list[partial[Tensor]]:
    return [partial(_mean_loss, task, each) for each in inputs]


def _mean_loss(task: Task, inputs: Inputs, model: nn.Module) -> Tensor:
    losses = task.losses(model, inputs)
    return losses.smoothed / losses.count
