"""Evaluation of a run's model: on its own data, on a store with the same tokenizer, or on files of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.readers import READERS
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.model.transformer import Transformer
from lamina.runs.changes import refuse_no_examples
from lamina.runs.summary import Evaluation
from lamina.tasks import build_task
from lamina.tasks.base import Task

SPLIT = "test"
"""The split that files are prepared as."""


def evaluate_split(
    task: Task, model: Transformer, split: str, progress: Progress = no_progress, *, examples: bool = False
) -> Evaluation:
    """The task's metrics on each set of a split, and the scores of single examples if `examples` is set."""
    refuse_no_examples(task.store)
    sets = task.evaluated_sets(split)
    if not sets:
        raise UserError(f"{task.store.folder}: no split {split!r}; there are {', '.join(task.store.splits)}")
    scores, found = {}, {}
    task.progress = progress
    try:
        for name in sets:
            scores[name] = task.evaluate(model, name)
            if examples:
                found[name] = task.evaluated_examples(model, name)
    finally:
        del task.progress
    coverage = {name: task.coverage(model, name) for name in sets}
    return Evaluation(scores, task.signatures(), coverage, task.metric_tables(), found)


def evaluate_other_data(
    task: Task,
    model: Transformer,
    split: str,
    data: Sequence[str],
    progress: Progress = no_progress,
    *,
    examples: bool = False,
) -> Evaluation:
    """The metrics on a split of another store, or on all examples of some files."""
    with TemporaryDirectory(prefix="lamina-") as folder:
        store = open_other_data(task.store, data, Path(folder, "store"), progress)
        other = build_task(task.name, store, task.options)
        return evaluate_split(other, model, split if Path(data[0]).is_dir() else SPLIT, progress, examples=examples)


def open_other_data(own: Store, given: Sequence[str], folder: Path, progress: Progress = no_progress) -> Store:
    """A store, which must have the run's own tokenizers and labels, or files, prepared in `folder` with them.

    own: the run's own manifest and tokenizers.
    given: the folder of a store, or files in the format that the run was trained on: source and target files in turn
        for translation and summarisation.
    """
    if any(Path(each).is_dir() for each in given):
        if len(given) > 1:
            raise UserError(f"--data: {', '.join(given)}: give one store, or files only")
        return _same_kind(own, Store.open(given[0]))
    return prepare(_options(own, given, folder), progress)


def _same_kind(own: Store, other: Store) -> Store:
    hashes = [
        {field: store.manifest.files[name].sha256 for field, name in store.manifest.tokenizers.items()}
        for store in (own, other)
    ]
    if hashes[0] != hashes[1]:
        raise UserError(
            f"{other.folder}: has another tokenizer than the run {own.folder}; give the files themselves as --data, or "
            f"prepare them with tokenizer.file={own.folder / next(iter(own.manifest.tokenizers.values()))}"
        )
    if isinstance(own.manifest.settings["train"], dict) and not other.sets("train"):
        raise UserError(f"{other.folder}: no training set, which tells the language pairs; prepare it with one")
    if own.labels != other.labels:
        raise UserError(f"{other.folder}: its labels are {list(other.labels)}, those of the run {list(own.labels)}")
    return other


def _options(own: Store, files: Sequence[str], folder: Path) -> PrepareOptions:
    settings, tokenizers = own.manifest.settings, set(own.manifest.tokenizers.values())
    if len(tokenizers) > 1 or isinstance(settings["train"], dict):
        raise UserError(
            f"{own.folder}: has several tokenizers or language pairs, so it is evaluated on a store, not on files"
        )
    values: dict[str, Any] = {name: settings[name] for name in ("format", "columns", "unit")}
    if not READERS[values["format"]].reads_files:  # generated or from the hub: the simplest format of the same fields
        values |= _simplest_format(tuple(own[own.splits[0]].fields))
    values |= {"output": str(folder), "labels": own.labels, SPLIT: list(files)}
    values |= {"tokenizer": {"file": str(own.folder / tokenizers.pop())}}
    return PrepareOptions.read(values, where="--data")


def _simplest_format(fields: tuple[str, ...]) -> dict[str, Any]:
    if fields == ("source", "target"):
        return {"format": "parallel", "columns": {}}
    if fields == ("text",):
        return {"format": "plain", "columns": {}}
    return {"format": "tsv", "columns": {name: place for place, name in enumerate(fields, start=1)}}
