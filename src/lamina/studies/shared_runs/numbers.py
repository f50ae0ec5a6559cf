"""The numbers of a finished run, which are all that is kept of it: state, losses, scores, time, measurements."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

import torch

from lamina.diagnosis.measurement import TypedResult
from lamina.report.run_results import read_run_results
from lamina.run_folder.checkpoints import LATEST
from lamina.run_folder.records import Fingerprint
from lamina.runs.run import Run
from lamina.studies.result_table import Label, ResultRow
from lamina.version import __version__

DIGITS = 5
"""The significant digits of the numbers."""
LOSSES = ("loss", "nll")
Points = tuple[tuple[int, float], ...]
ResultPlace = tuple[str, tuple[tuple[str, Label], ...]]
"""A quantity, and labels besides those of the run."""
ALWAYS: tuple[ResultPlace, ...] = (("trained", ()), ("validation loss", ()), ("best validation loss", ()))
"""Quantities that every run has, with None for one that failed."""


class Measured(TypedResult):
    """What a study measured of the trained model, before its weights were deleted."""

    version: int
    """The version of the study."""
    rows: tuple[ResultRow, ...]


class RunNumbers(TypedResult):
    """The numbers of one run."""

    key: str
    """The key of what they depend on, see `Fingerprint`."""
    data: str
    """The name of the data set."""
    values: dict[str, Any]
    """The values of its config that a study declared, with the seed."""
    versions: dict[str, int]
    """The result versions of the code that trained it."""
    state: str
    """`finished`, `failed` or `too short`."""
    reason: str = ""
    steps: int
    training_loss: Points
    validation_loss: Points
    scores: dict[str, dict[str, float]]
    """The task's metrics at the end, by set; none of a run that failed."""
    measured: dict[str, Measured] = {}
    """Measurements of the trained model, by study."""
    seconds: float
    machine: str
    made: date
    torch: str
    lamina: str = __version__

    @property
    def has_failed(self) -> bool:
        return self.state == "failed"

    def at_the_end(self, study: str) -> dict[ResultPlace, float | None]:
        """The numbers at the end by quantity and labels; none of a run that failed."""
        if self.has_failed:
            return {}
        losses = [loss for _, loss in self.validation_loss]
        found: dict[ResultPlace, float | None] = {
            ("trained", ()): 1.0,
            ("validation loss", ()): losses[-1],
            ("best validation loss", ()): min(losses),
        }
        for split, scores in self.scores.items():
            kind, _, name = split.partition("/")
            place = (("set", int(name) if name.isdigit() else name),) if name else ()
            for metric, value in scores.items():
                if metric not in LOSSES:
                    found[metric if split == "valid" else f"{kind} {metric}", place] = value
        for row in self.measured[study].rows if study in self.measured else ():
            found[row.quantity, tuple(sorted(row.labels.items()))] = row.value
        return found

    def curves(self) -> Iterator[tuple[ResultPlace, float]]:
        """The losses by step, of a run that failed too."""
        for name, points in (("training", self.training_loss), ("validation", self.validation_loss)):
            for step, loss in points:
                yield (f"{name} loss by step", (("step", step),)), loss


def collect_numbers(
    run: Run, data: str, values: Mapping[str, Any], found: Fingerprint, key: str, seconds: float
) -> RunNumbers:
    """The numbers of a run that has ended. A test set is evaluated if the run did not fail."""
    (result,) = read_run_results([run.path])
    status = run.folder.status()
    assert status is not None
    return RunNumbers(
        key=key,
        data=data,
        values=dict(values),
        versions=found.versions,
        state=result.state,
        reason=result.reason,
        steps=status.step,
        training_loss=_points(result.training_loss),
        validation_loss=_points(result.validation_loss),
        scores={} if result.state == "failed" else _evaluate(run, result.final),
        seconds=round(seconds, 1),
        machine=machine(),
        made=date.today(),
        torch=torch.__version__,
    )


def machine() -> str:
    """The processor and the number of its cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{platform.machine()}, {cores} cores"


def _evaluate(run: Run, final: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The metrics on the validation split, and on every validation and test set where there are several."""
    run.load(LATEST)
    task, model = run.task, run.model
    scores = {"valid": dict(final) or task.evaluate(model, "valid")}
    sets = [name for split in ("valid", "test") for name in task.evaluated_sets(split)]
    scores |= {name: task.evaluate(model, name) for name in sets if name != "valid"}
    return {name: {metric: _rounded(value) for metric, value in each.items()} for name, each in scores.items()}


def _points(curve: Iterable[tuple[float, float]]) -> Points:
    return tuple((int(step), _rounded(loss)) for step, loss in curve)


def rounded_row(found: ResultRow) -> ResultRow:
    """The row with few digits."""
    return found if found.value is None else found.model_copy(update={"value": _rounded(found.value)})


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
