"""The summary of a run, read from its folder, and the result of an evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.metrics import FINAL, VALID, values_of
from lamina.run_folder.status import Status
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Coverage, Task
from lamina.tasks.metric_tables import MetricTable
from lamina.training.config import RunConfig


@dataclass(frozen=True)
class RunSummary:
    """The state of a run and the metrics of its model."""

    name: str
    state: str
    reason: str
    step: int
    best_step: int | None
    """The step of the lowest validation loss."""
    best_nll: float | None
    final: Mapping[str, float]
    """The task's metrics at the end."""
    best_metric: tuple[str, float, int] | None = None
    """Name, value and step of the best value of the task's metric in training; None if it was not measured."""
    tables: Sequence[MetricTable] = ()
    """The tables in which some of the metrics are shown."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of each set of a split, and the signatures of those that have one."""

    scores: Mapping[str, Mapping[str, float]]
    signatures: Mapping[str, str]
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    """The number of examples of each set that were evaluated."""
    tables: Sequence[MetricTable] = ()
    """The tables in which some of the metrics are shown."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Text, output and scores of every example of each set, if they were asked for."""


def summarise(folder: RunFolder, status: Status, config: RunConfig) -> RunSummary:
    """The summary of a run in any state."""
    metrics = list(folder.metrics.read())
    key = VALID + "nll"
    validated = [(line[key], line["step"]) for line in metrics if line.get(key) is not None]
    best_nll, best_step = min(validated, default=(None, None))
    final = {name: value for line in metrics for name, value in values_of(FINAL, line).items()}
    best_metric = _best_metric(TASKS[config.task], metrics)
    tables = _metric_tables(folder, config) if final else ()
    return RunSummary(
        folder.path.name, status.state, status.reason, status.step, best_step, best_nll, final, best_metric, tables
    )


def _metric_tables(folder: RunFolder, config: RunConfig) -> Sequence[MetricTable]:
    """The tables that the task declares for the run's own data; none if the run has no copy of its manifest."""
    try:
        own = folder.data_copy(lambda: folder.path)  # no example is read
        return build_task(config.task, own, config.task_options).metric_tables()
    except UserError as error:  # a summary shows what there is
        warnings.warn(f"{error} So the tables of metrics are not shown.", stacklevel=3)
        return ()


def _best_metric(task: type[Task], metrics: Sequence[Mapping[str, Any]]) -> tuple[str, float, int] | None:
    key = VALID + task.metric
    measured = [(line[key], -line["step"]) for line in metrics if key in line and task.metric != "nll"]
    if not measured:
        return None
    value, step = max(measured) if task.higher_is_better else min(measured)
    return task.metric, value, abs(step)
