"""What run folders tell: everything that a report of several runs is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamina import residual
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.model.options import ModelOptions, pair
from lamina.run_folder.folder import RunFolder
from lamina.runs.runs import read_config, summarise_run
from lamina.tasks import TASKS
from lamina.tasks.base import SampleOutput
from lamina.training.config import RunConfig

LOSS = "validation loss"
"""As a curve, and as a number where it was lowest."""
CURVES = {LOSS: "valid_nll", "training loss": "nll"}


@dataclass(frozen=True)
class RunStory:
    """All that a comparison tells of one run."""

    name: str
    scheme: str
    """`b2t`, or `post-ln/pre-ln` where encoder and decoder differ."""
    depth: str
    """`18-18`, or `12` for a single stack."""
    seed: int
    state: str
    """`finished`, `failed`, `running` …"""
    reason: str = ""
    """Why it failed."""
    curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By name, such as `training loss`: steps and values."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The task's own, at the end, and the lowest validation loss."""
    seconds: float | None = None
    memory: float | None = None
    """The most that was in use, in bytes."""
    start: Diagnosis | None = None
    end: Diagnosis | None = None
    samples: Sequence[SampleOutput] = ()


def read_stories(paths: Sequence[Path]) -> list[RunStory]:
    """The stories of some runs of one task."""
    stories, tasks = [], dict[str, Path]()
    for path in paths:
        summarise_run(path)  # says what is wrong with a folder that is no run
        config = read_config(path, [])
        tasks.setdefault(config.task, path)
        stories.append(read_story(path, config))
    if len(tasks) > 1:
        (first, one), (second, other), *_ = tasks.items()
        raise UserError(f"{one} is a run of {first}, {other} of {second}: a report shows runs of one task")
    return stories


def read_story(path: Path, config: RunConfig) -> RunStory:
    summary = summarise_run(path)
    lines = list(RunFolder(path).metrics.read())
    chosen = config.chosen_model()
    seconds, memory = RunFolder(path).cost()
    return RunStory(
        name=path.name,
        scheme="/".join(dict.fromkeys(_as_pair(chosen.get("residual", residual.DEFAULT)))),
        depth=_depth(config),
        seed=config.seed,
        state=summary.state,
        reason=summary.reason,
        curves={
            name: [(line["step"], line[key]) for line in lines if line.get(key) is not None]
            for name, key in CURVES.items()
        },
        metrics=_metrics(config, summary.final, summary.best_nll),
        seconds=seconds or None,
        memory=memory or None,
        start=_read_diagnosis(RunFolder(path).start_diagnosis),
        end=_read_diagnosis(RunFolder(path).last_step_diagnosis()),
        samples=RunFolder(path).samples.last(),
    )


def _metrics(config: RunConfig, final: Mapping[str, float], best_nll: float | None) -> dict[str, float]:
    """The task's own number at the end, unless that is the loss; then the loss."""
    metric = TASKS[config.task].metric
    found = {metric: final[metric]} if metric in final and metric != "nll" else {}
    return found | ({LOSS: best_nll} if best_nll is not None else {})


def _depth(config: RunConfig) -> str:
    """A task with a source and a target has a model with an encoder and a decoder."""
    first, second = _as_pair(config.chosen_model().get("num_layers", ModelOptions.model_fields["num_layers"].default))
    return f"{first}-{second}" if "source" in TASKS[config.task].fields else str(first)


def _as_pair(value: Any) -> tuple[Any, Any]:
    return pair(tuple(value) if isinstance(value, list) else value)


def _read_diagnosis(file: Path | None) -> Diagnosis | None:
    return Diagnosis.read(file) if file is not None and file.is_file() else None
