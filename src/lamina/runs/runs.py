"""Runs as a whole: start or resume one, load one, evaluate it, average its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.run_folder.data_copy import kept_store
from lamina.run_folder.folder import RunFolder, Status
from lamina.runs.changes import former_config, record_start, refuse_changes
from lamina.runs.plan import Plan, make_plan
from lamina.runs.summary import Evaluation, RunSummary
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Task
from lamina.training.callbacks.display import Display
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.average import average
from lamina.training.checkpoint.snapshot import load_weights
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World, join_world
from lamina.training.loop import Training
from lamina.training.signals import Interrupts


def train(config: RunConfig, path: str | Path, *, force: bool = False, quiet: bool = False) -> Status:
    """Start a run in the folder `path`, or go on with the one that is there."""
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    with join_world(config.train.device) as world:
        folder = RunFolder(path)
        display = Display(quiet=quiet or not world.is_first)
        if world.is_first:
            folder.claim()
        try:
            with Interrupts(display.note) as interrupts:
                return _train(config, folder, world, display, interrupts, force)
        finally:
            folder.release()


def _train(
    config: RunConfig, folder: RunFolder, world: World, display: Display, interrupts: Interrupts, force: bool
) -> Status:
    before, former = folder.status(), former_config(folder)
    if world.is_first:
        store = open_store(config, folder)  # here first, for it may have to be prepared
        if former and not force:
            refuse_changes(folder, former, config, store)
    asked_for_more = former is not None and config.train.steps > former.train.steps
    if before and before.has_ended and not (asked_for_more or force):
        display.note(f"{folder.path} is {before.state} already")
        return before
    world.wait()  # all have looked
    store = open_store(config, folder)
    training = Training(config, store, folder, world, display, interrupts)
    if world.is_first:  # not before: a start that fails leaves nothing that would bind the next one
        record_start(folder, config, store)
        folder.set_status("running", training.step)
    state, reason = training.run()
    if world.is_first:
        folder.set_status(state, training.step, reason)
    world.wait()
    status = folder.status()
    assert status is not None
    return status


def summarise_run(path: str | Path) -> RunSummary:
    """What a run folder says, whatever state it is in."""
    folder = RunFolder(path)
    status = folder.status()
    if status is None:
        raise UserError(f"{path}: not a run folder, or one that never started")
    lines = list(folder.metrics.read())
    validated = [(line["valid_nll"], line["step"]) for line in lines if line.get("valid_nll") is not None]
    best_nll, best_step = min(validated, default=(None, None))
    final = {
        key.removeprefix("final_"): value for line in lines for key, value in line.items() if key.startswith("final_")
    }
    metric = _best_metric(TASKS[read_config(path, []).task], lines)
    return RunSummary(folder.path.name, status.state, status.reason, status.step, best_step, best_nll, final, metric)


def _best_metric(task: type[Task], lines: list[dict[str, Any]]) -> tuple[str, float, int] | None:
    name = f"valid_{task.metric}"
    measured = [(line[name], -line["step"]) for line in lines if name in line and task.metric != "nll"]
    if not measured:
        return None
    value, step = max(measured) if task.higher_is_better else min(measured)
    return task.metric, value, abs(step)


def read_config(path: str | Path, words: list[str]) -> RunConfig:
    """A config file, or the one of a run folder, with overrides."""
    path = Path(path)
    if not path.is_dir():
        return RunConfig.read(read_values(path, words), where=str(path))
    folder = RunFolder(path)
    try:
        return RunConfig.read(read_values(folder.config, words), where=str(folder.config))
    except UserError as error:
        raise UserError(f"{error}{folder.other_version}") from error


def load(
    path: str | Path, which: str = "best", generation: Mapping[str, Any] | None = None
) -> tuple[Task, Transformer]:
    """The task and the trained model of a run: `best`, `latest`, `average` or `step-…`.

    `generation` changes how the task generates text.
    """
    folder, config = find_run(path), read_config(path, [])
    options = dict(config.task_options)
    if generation:
        options["generation"] = options.get("generation", {}) | generation
    task = build_task(config.task, _store_or_what_is_kept(config, folder), options)
    model = Transformer.build(task.model_options(config.chosen_model()))
    load_weights(model, checkpoint.load_model(folder.find_checkpoint(which)))
    return task, model.eval()


def _store_or_what_is_kept(config: RunConfig, folder: RunFolder) -> Store:
    """Where the store is gone, what the run has kept of it is enough to generate text."""
    gone = config.data.store is not None and not Path(config.data.store).exists()
    kept = kept_store(folder.path) if gone else None
    return open_store(config, folder) if kept is None else kept


def plan_run(config: RunConfig, folder: str | Path, **machine: Any) -> Plan:
    """What training this config would take; only its data is opened, or prepared where it is embedded."""
    return make_plan(config, open_store(config, RunFolder(folder)), **machine)


def evaluate(path: str | Path, split: str = "valid", which: str = "best") -> Evaluation:
    """The task's metrics of a trained run on each set of a split."""
    return evaluate_model(*load(path, which), split)


def evaluate_model(task: Task, model: nn.Module, split: str = "valid") -> Evaluation:
    """The task's metrics on each set of a split."""
    sets = task.evaluated_sets(split)
    if not sets:
        raise UserError(f"{task.store.folder}: no split {split!r}; there are {', '.join(task.store.splits)}")
    return Evaluation({name: task.evaluate(model, name) for name in sets}, task.signatures())


def average_run(path: str | Path, count: int | None = None) -> list[Path]:
    """Average the weights of the last `count` checkpoints, or of all the last ones kept; which these are."""
    folder = find_run(path)
    # What is kept besides the last ones is the best, perhaps long before them.
    kept = folder.list_checkpoints()[-read_config(path, []).train.keep :]
    if not kept:
        raise UserError(f"{path}: no checkpoint yet; go on with lamina train {path}")
    if len(kept) < (count or 1):
        raise UserError(f"{path}: {count} checkpoints asked for, but {len(kept)} kept; train with train.keep={count}")
    chosen = kept[-(count or len(kept)) :]
    checkpoint.save_model(folder.average, average(chosen))
    return chosen


def find_run(path: str | Path) -> RunFolder:
    """The folder of a run that was started."""
    folder = RunFolder(path)
    if not folder.config.is_file():
        raise UserError(f"{path}: not a run folder (no {folder.config.name}); train one with lamina train")
    return folder


def open_store(config: RunConfig, folder: RunFolder) -> Store:
    """The store of the config, or the task's embedded languages beside the run folder."""
    if config.data.store is not None:
        return Store.open(config.data.store)
    return prepare(TASKS[config.task].embedded_options(folder.path.parent / ".embedded"))
