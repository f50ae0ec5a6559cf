"""The tasks, one per file: `translation.py` is "translation" in a config.

A task determines the contents of a batch, the kind of model, the loss and the metrics. Installed packages add tasks
through the entry-point group `lamina.tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.data.catalogue import Source
from lamina.data.store import Store
from lamina.registry import Registry
from lamina.tasks.base import Task, TaskOptions

TASKS = Registry(__name__, Task, kind="task", group="lamina.tasks")


def data_sets() -> dict[str, Source]:
    """The data sets that tasks bring themselves, besides those of the catalogue: `embedded-` and the task's name."""
    return {task.embedded_name(): task.embedded for task in TASKS.values() if isinstance(task.embedded, Source)}


def build_task(name: str, store: Store, options: TaskOptions | Mapping[str, Any]) -> Task:
    """The task of that name over a store; it checks its own options."""
    task = TASKS[name]
    if isinstance(options, TaskOptions):
        return task(store, options)
    return task(store, task.Options.read(options, where=f"task {name!r}"))
