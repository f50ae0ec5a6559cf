"""The results of runs, read from their folders, from which a report of several runs is made."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.model.options import pair
from lamina.report.run_settings import Settings, differing_settings
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import Cost
from lamina.runs.run import Run
from lamina.tasks import TASKS
from lamina.tasks.base import SampleOutput
from lamina.tasks.metric_tables import MetricTable, mean_metrics
from lamina.training.config import RunConfig


@dataclass(frozen=True)
class RunResult:
    """The results of one run that a comparison shows."""

    name: str
    schemes: tuple[str, ...]
    """The schemes of its stacks; one where they are the same."""
    layers: tuple[int, ...]
    """The number of layers of each stack."""
    seed: int
    state: str
    """`finished`, `failed`, `too short`, `running` or `stopped`."""
    reason: str = ""
    """Why it failed, cannot be judged, or stopped."""
    settings: Settings = ()
    """Its values of the keys in which the runs that are shown differ, besides scheme, depth and seed."""
    training_loss: Sequence[tuple[float, float]] = ()
    """Steps and losses."""
    validation_loss: Sequence[tuple[float, float]] = ()
    """Steps and losses."""
    best_loss: float | None = None
    """The lowest validation loss."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The task's own metric at the end, where that is not the loss, and the metrics that sum up its tables."""
    final: Mapping[str, float] = field(default_factory=dict)
    """All metrics of the task at the end."""
    tables: Sequence[MetricTable] = ()
    """The tables in which some of the metrics are shown."""
    seconds: float | None = None
    memory: float | None = None
    """The largest resident memory, in bytes."""
    start: Diagnosis | None = None
    """The diagnosis before training."""
    end: Diagnosis | None = None
    """The diagnosis of the last checkpoint that was diagnosed."""
    samples: Sequence[SampleOutput] = ()
    """The samples of the last validation."""


def read_run_results(paths: Sequence[Path]) -> list[RunResult]:
    """The results of some runs, all of one task."""
    runs, results, tasks = [Run(path) for path in paths], [], dict[str, Path]()
    for run, path in zip(runs, paths, strict=True):
        results.append(_read_result(run))
        tasks.setdefault(run.config.task, path)
    if len(tasks) > 1:
        (first, one), (second, other), *_ = tasks.items()
        raise UserError(f"{one} is a run of {first}, {other} of {second}: a report shows runs of one task")
    settings = differing_settings(runs)
    return [replace(result, settings=own) for result, own in zip(results, settings, strict=True)]


def _read_result(run: Run) -> RunResult:
    summary, config, folder = run.summary(), run.config, run.folder
    lines = list(folder.metrics.read())
    cost = _read_cost(folder)
    shown = (TASKS[config.task].metric, *mean_metrics(summary.tables))
    return RunResult(
        name=run.path.name,
        schemes=tuple(dict.fromkeys(pair(config.model.residual))),
        layers=_layers(config),
        seed=config.seed,
        state=summary.state,
        reason=summary.reason,
        training_loss=_curve(lines, "nll"),
        validation_loss=_curve(lines, "valid_nll"),
        best_loss=summary.best_nll,
        metrics={name: summary.final[name] for name in shown if name in summary.final and name != "nll"},
        final=summary.final,
        tables=summary.tables,
        seconds=cost.seconds or None,
        memory=cost.memory or None,
        start=_read_diagnosis(folder, folder.start_diagnosis),
        end=_read_diagnosis(folder, folder.last_step_diagnosis()),
        samples=folder.samples.last(),
    )


def _curve(lines: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    return [(line["step"], line[key]) for line in lines if line.get(key) is not None]


def _read_cost(folder: RunFolder) -> Cost:
    """The cost of a run of a comparison; of others it is not known."""
    cost = folder.cost.read()
    if cost is None and (folder.cost.path.exists() or folder.diagnosed.path.exists()):  # a comparison writes both
        warnings.warn(
            f"{folder.cost.path}: missing or damaged, so the time and memory of the run are not shown.", stacklevel=2
        )
    return cost or Cost()


def _layers(config: RunConfig) -> tuple[int, ...]:
    """The numbers of layers of encoder and decoder, or of the only stack."""
    layers = pair(config.model.num_layers)
    return layers if TASKS[config.task].model_kind == "encoder-decoder" else layers[:1]


def _read_diagnosis(folder: RunFolder, file: Path | None) -> Diagnosis | None:
    """The diagnosis in a file of the run folder; refused if its name says another stage than its content."""
    if file is None or not file.is_file():
        return None
    diagnosis = Diagnosis.read(file)
    stage = diagnosis.stage
    expected = folder.start_diagnosis if stage.step is None else folder.step_diagnosis(stage.step)
    if "passes" in diagnosis.lacks or file != expected:
        raise UserError(
            f"{file}: a diagnosis {stage}, so not of this name; make it again: lamina diagnose {folder.path}"
        )
    return diagnosis
