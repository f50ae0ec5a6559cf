"""Runs as a whole: start or resume one, load one, evaluate it, average its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lamina.config import read_values, to_toml
from lamina.data.atomic import write_file
from lamina.data.manifest import FILE as MANIFEST
from lamina.data.manifest import hash_file
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.report.runs import Evaluation, RunSummary
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Task
from lamina.train import checkpoint
from lamina.train.average import average
from lamina.train.config import RunConfig
from lamina.train.display import Display
from lamina.train.loop import Training
from lamina.train.plan import Plan, make_plan
from lamina.train.run_folder import RunFolder, Status
from lamina.train.snapshot import Tensors, load_weights
from lamina.train.world import World, join_world

# Of [train], when a run is resumed.
MAY_CHANGE = {"steps", "keep", "log_every", "samples", "threads", "device", "parallel"}


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
            return _train(config, folder, world, display, force)
        finally:
            folder.release()


def _train(config: RunConfig, folder: RunFolder, world: World, display: Display, force: bool) -> Status:
    before, former = folder.status(), _former_config(folder)
    if world.is_first:
        _refuse_changed_config(config, former, folder, force)
        _refuse_changed_data(open_store(config, folder), folder, force)
    if before and former and _has_ended(before, former, config) and not force:
        display.note(f"{folder.path} is {before.state} already")
        return before
    world.wait()  # all have looked
    if world.is_first:
        folder.store_config(to_toml(config))
        folder.set_status("running", before.step if before else 0)
    world.wait()
    store = open_store(config, folder)
    training = Training(config, store, folder, world, display)
    state, reason = training.run()
    final = {f"final_{name}": value for name, value in training.scores().items()} if state == "finished" else {}
    if world.is_first:
        if final:
            folder.metrics.append(training.step, final)
        folder.set_status(state, training.step, reason)
    world.wait()
    status = folder.status()
    assert status is not None
    return status


def _has_ended(status: Status, former: RunConfig, config: RunConfig) -> bool:
    """A run that has finished, or failed, and is not asked for more steps: it would end the same way again."""
    return status.state in ("finished", "failed") and config.train.steps <= former.train.steps


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
    folder = RunFolder(path)
    if not folder.config.is_file():
        raise UserError(f"{path}: not a run folder (no config.toml); train one with lamina train")
    config = read_config(path, [])
    options = dict(config.task_options)
    if generation:
        options["generation"] = options.get("generation", {}) | generation
    task = build_task(config.task, open_store(config, folder), options)
    model = Transformer.build(task.model_options(config.chosen_model()))
    load_weights(model, _weights(folder, which))
    return task, model.eval()


def _weights(folder: RunFolder, which: str) -> Tensors:
    if which == "average":
        from safetensors.torch import load_file

        return load_file(_averaged(folder))
    chosen = folder.checkpoints / which
    if not chosen.exists() and which == "best":
        chosen = folder.checkpoints / "latest"
    if not chosen.exists():
        there = [each.name for each in checkpoint.list_checkpoints(folder.checkpoints)]
        raise UserError(f"{folder.path}: no checkpoint {which!r}; there are: {', '.join(there) or 'none'}")
    return checkpoint.load_model(chosen)


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


def average_run(path: str | Path, count: int) -> Path:
    """Average the weights of the last `count` checkpoints into the run folder."""
    folder = RunFolder(path)
    there = checkpoint.list_checkpoints(folder.checkpoints)
    if len(there) < count:
        raise UserError(f"{path}: {count} checkpoints asked for, but {len(there)} kept; train with train.keep={count}")
    from safetensors.torch import save

    target = _averaged(folder)
    write_file(target, save(average(there[-count:])))
    return target


def _averaged(folder: RunFolder) -> Path:
    return folder.path / "average.safetensors"


def open_store(config: RunConfig, folder: RunFolder) -> Store:
    """The store of the config, or the task's embedded languages beside the run folder."""
    if config.data.store is not None:
        return Store.open(config.data.store)
    name = TASKS[config.task].embedded
    return prepare(source_options(name, ".", str(folder.path.parent / ".embedded" / name)))


def _former_config(folder: RunFolder) -> RunConfig | None:
    """What the run was started with, if it was."""
    if not folder.config.is_file():
        return None
    return RunConfig.read(read_values(folder.config), where=str(folder.config))


def _refuse_changed_config(config: RunConfig, former: RunConfig | None, folder: RunFolder, force: bool) -> None:
    if former is None or force:
        return
    changes = list(_differences(former.model_dump(), config.model_dump()))
    if changes:
        listing = "".join(f"\n  {key}: was {old!r}, is {new!r}" for key, old, new in changes)
        raise UserError(
            f"{folder.path}: this run was started with another config:{listing}\n"
            "Use another folder, undo the change, or go on all the same with --force"
        )


def _differences(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> Any:
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new and not (prefix == "train." and key in MAY_CHANGE) and not prefix.startswith("diagnose."):
            yield f"{prefix}{key}", old, new


def _refuse_changed_data(store: Store, folder: RunFolder, force: bool) -> None:
    file = folder.path / "data.json"
    seal = {"store": str(store.folder), "sha256": hash_file(store.folder / MANIFEST)}
    if file.exists() and not force and json.loads(file.read_bytes())["sha256"] != seal["sha256"]:
        raise UserError(
            f"{folder.path}: the data is not what this run was started with: {store.folder} was prepared anew, from "
            "other sources or settings. Use another folder, or go on all the same with --force"
        )
    write_file(file, json.dumps(seal, indent=1).encode())
