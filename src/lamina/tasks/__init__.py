"""The tasks, one file each: what a batch is, which model, which loss, which metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.data.store import Store
from lamina.errors import unknown
from lamina.tasks.base import Task
from lamina.tasks.classification import Classification
from lamina.tasks.language_modelling import LanguageModelling
from lamina.tasks.masked_language_modelling import MaskedLanguageModelling
from lamina.tasks.multilingual_translation import MultilingualTranslation
from lamina.tasks.summarisation import Summarisation
from lamina.tasks.translation import Translation

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        Translation,
        MultilingualTranslation,
        Summarisation,
        LanguageModelling,
        MaskedLanguageModelling,
        Classification,
    )
}


def build_task(name: str, store: Store, options: Mapping[str, Any]) -> Task:
    """The task of that name over a store; it checks its own options."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    task = TASKS[name]
    return task(store, task.Options.read(options, where=f"task {name!r}"))
