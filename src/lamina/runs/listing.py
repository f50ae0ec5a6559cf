"""The runs in a folder with their state, step and metric, including those that cannot be read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Literal

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import describe_change
from lamina.runs.run import read_config
from lamina.runs.summary import summarise
from lamina.tasks import TASKS

ListedState = Literal["running", "finished", "failed", "too short", "stopped", "killed", "not started", "damaged"]
DEEPEST = 4
"""The number of levels of folders that are searched for runs."""


@dataclass(frozen=True)
class ListedRun:
    """One run of a folder, as far as its files can be read."""

    path: Path
    state: ListedState
    """The state in its status; `killed` if that is `running` but no process holds its lock, `not started` if there is
    only a config, `damaged` if a file cannot be read."""
    task: str | None = None
    step: int | None = None
    steps: int | None = None
    """The number of steps of the whole run; None if its length is given in epochs and it has not started."""
    best_nll: float | None = None
    metric: tuple[str, float] | None = None
    """Name and value of the task's metric: at the end, or the best so far."""
    updated: str | None = None
    """When the status was last written; UTC."""
    problem: str = ""
    """Why it cannot be read, or the reason in its status; then a line for each file that has changed."""


def list_runs(folder: str | Path = "runs") -> list[ListedRun]:
    """All runs in a folder, or the folder itself if it is one, sorted by path."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name the folder that holds the runs: lamina runs FOLDER")
    found = [_read(path) for path in _run_folders(folder, DEEPEST)]
    if not found:
        raise UserError(f"{folder}: no run in it; start one with lamina train, or name another folder")
    return found


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a config and a status, or what is left of them; a run has no runs inside it."""
    files = RunFolder(folder)
    if files.status_file.is_file() or (files.config.is_file() and files.checkpoints.is_dir()):
        yield folder
        return
    if depth:
        with os.scandir(folder) as entries:
            below = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
        for name in below:
            if not name.startswith("."):
                yield from _run_folders(folder / name, depth - 1)


def _read(path: Path) -> ListedRun:
    folder = RunFolder(path)
    try:
        status = folder.status()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # changed files are named below
            config = read_config(path)
            if status is None:
                return ListedRun(path, "not started", config.task, steps=config.train.steps)
            summary = summarise(folder, status, config)
        problems = [*status.notes, *starmap(describe_change, folder.changed_files().items())]
    except (UserError, OSError) as error:
        return ListedRun(path, "damaged", problem=str(error))
    name = TASKS[config.task].metric
    value = summary.final.get(name, summary.best_metric[1] if summary.best_metric else None)
    is_killed = status.state == "running" and not folder.is_being_written
    return ListedRun(
        path,
        "killed" if is_killed else status.state,
        config.task,
        status.step,
        config.train.steps or status.planned_steps,
        summary.best_nll,
        None if value is None else (name, value),
        status.updated[:16].replace("T", " "),
        "\n".join([f"{path}: {status.reason}", *problems] if status.reason else problems),
    )
