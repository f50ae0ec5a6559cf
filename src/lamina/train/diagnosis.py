"""What `lamina diagnose` looks at: a config, a run, or a folder with somebody else's model.

A config is measured at the start, over seeds, on real batches of its task. A run is measured at the start too, and at a
checkpoint, over batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from lamina.data.progress import Progress, no_progress
from lamina.diagnose.examine import examine
from lamina.diagnose.pretrained import is_model_folder, pretrained_subject
from lamina.diagnose.results import Diagnosis
from lamina.diagnose.subject import Subject
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.base import Inputs, Task
from lamina.train import checkpoint
from lamina.train.config import RunConfig
from lamina.train.run_folder import RunFolder
from lamina.train.runs import load, open_store, read_config
from lamina.train.world import join_world


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


def diagnose_all(words: Sequence[str], extent: Extent, progress: Progress = no_progress) -> list[Diagnosis]:
    """The diagnoses of configs, run folders and model folders; words of the form key=value change the configs.

    Those of a run are kept in its folder, under diagnosis/.
    """
    changes = [word for word in words if "=" in word and not Path(word).exists()]
    paths = [Path(word) for word in words if word not in changes]
    if not paths:
        raise UserError("say what to diagnose: a config, a run folder, or a folder with config.json and safetensors")
    found = []
    for path in paths:
        for subject in subjects_of(path, changes, extent):
            diagnosis = examine(subject, seeds=extent.seeds, progress=progress)
            if is_run_folder(path):
                name = "start" if diagnosis.step is None else f"step-{diagnosis.step:08d}"
                diagnosis.write(RunFolder(path).diagnosis / f"{name}.json")
            found.append(diagnosis)
    return found


def is_run_folder(path: Path) -> bool:
    return path.is_dir() and not is_model_folder(path)


def subjects_of(path: Path, changes: Sequence[str], extent: Extent) -> list[Subject]:
    """One of a config or a model folder; of a run its start and its checkpoint."""
    if is_model_folder(path):
        if changes:
            raise UserError(f"{path}: {changes[0]} changes a config, but this is a folder with a model")
        return [pretrained_subject(path, batches=extent.batches, tokens=extent.tokens)]
    if not path.is_dir():
        return [_start(path.stem, read_config(path, list(changes)), RunFolder(f"runs/{path.stem}"), extent)]
    folder = RunFolder(path)
    if folder.status() is None or not folder.config.is_file():
        raise UserError(
            f"{path}: neither a run folder (config.toml and status.json) nor a model (config.json and safetensors); "
            "there is " + (", ".join(sorted(each.name for each in path.iterdir())[:8]) or "nothing in it")
        )
    if changes:
        raise UserError(f"{path}: a run is looked at as it was trained; {changes[0]} needs a config file")
    return [_start(path.name, read_config(path, []), folder, extent), _trained(folder, extent)]


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
        name, _passes(task, inputs), factory=factory, any_depth=extent.depths, thresholds=config.diagnose.verdicts
    )


def _trained(folder: RunFolder, extent: Extent) -> Subject:
    task, model = load(folder.path, extent.checkpoint)
    config = read_config(folder.path, [])
    inputs = _batches(task, config, extent)
    model.train().to(inputs[0].device)
    return Subject(
        folder.path.name,
        _passes(task, inputs),
        model=model,
        step=_step(folder, extent.checkpoint),
        thresholds=config.diagnose.verdicts,
    )


def _step(folder: RunFolder, which: str) -> int:
    """Of a checkpoint that could be loaded; an average has the run's."""
    chosen = folder.checkpoints / which
    chosen = chosen if chosen.exists() else folder.checkpoints / checkpoint.LATEST
    return int(chosen.resolve().name.removeprefix("step-"))


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
