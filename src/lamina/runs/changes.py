"""Comparison of a resumed run's config and data with those it was started with; differences are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lamina.config import to_toml
from lamina.data.store import Manifest, Store
from lamina.errors import UserError
from lamina.options import Affects, Options, options_of, result_values, section_of
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.starting_point import StartingPoint
from lamina.run_folder.status import describe_change
from lamina.tasks import build_task
from lamina.training.config import RunConfig
from lamina.training.length import planned_steps
from lamina.training.start_from import find_start

Difference = tuple[str, Any, Any]
"""A key, its former value and its present one."""


def former_config(folder: RunFolder) -> RunConfig | None:
    """The config of the run; None if it has neither checkpoint nor result: its config may then be replaced."""
    status = folder.status()
    ended = status is not None and status.has_ended
    if not folder.config.is_file() or not (ended or folder.list_checkpoints()):
        return None
    return RunConfig.read_stored(folder.config)


def record_start(folder: RunFolder, config: RunConfig, store: Store) -> None:
    """Store the config and a copy of the data's manifest and tokenizers, which a resume is compared with."""
    folder.store_config(to_toml(config.resolved(store)))
    folder.copy_data(store)


def check_files(folder: RunFolder, config: RunConfig, *, config_is_known: bool) -> None:
    """Warn of files that have changed since the status was written; a changed config is accepted or refused.

    config: the config to train with.
    config_is_known: whether the stored config was compared with that of the checkpoints, or may be any.
    """
    for file, reason in folder.changed_files().items():
        change = describe_change(file, reason)
        if file != folder.config:
            warnings.warn(f"{change}; if there is a copy, restore it first", stacklevel=3)
        elif config_is_known:
            folder.accept_config()
        elif _results_of(RunConfig.read_stored(file)) == _results_of(config):
            raise UserError(f"{change}, before the first checkpoint; undo the change, or train on it with --force")


def _results_of(config: RunConfig) -> dict[str, Any]:
    return result_values(config, Affects.RESULTS)


def record_starting_point(folder: RunFolder, started_from: StartingPoint | None) -> None:
    """Store which weights a new run was started from; a former record of the folder is removed."""
    folder.started_from.unlink(missing_ok=True)
    if started_from is not None:
        started_from.save(folder.started_from)


def refuse_changes(folder: RunFolder, former: RunConfig, config: RunConfig, store: Store) -> None:
    """Refuse to resume a run if its data, or a value of its config that affects results, has changed."""
    before, after = (result_values(each.resolved(store), Affects.RESULTS) for each in (former, config))
    if listing := list_differences(differences(before, after, RunConfig)):
        raise UserError(
            f"{folder.path}: this run was started with another config:{listing}\n"
            "Use another folder, undo the change, or continue anyway with --force"
        )
    if former.schedule.depends_on_length and _length(former) != _length(config):
        raise UserError(
            f"{folder.path}: the schedule {config.schedule.name!r} depends on the length of training, which was "
            f"{_length(former)} and is {_length(config)}: the steps before would have had other learning rates.\n"
            "Use another folder, undo the change, or continue anyway with --force"
        )
    if _starts_elsewhere(folder, former, config, store):
        raise UserError(
            f"{folder.path}: this run was started from other weights: start_from was {former.start_from!r}, is "
            f"{config.start_from!r}\nUse another folder, undo the change, or continue anyway with --force"
        )
    own = folder.data_copy(lambda: store.folder).manifest
    if difference := _data_difference(own, store):
        raise UserError(f"{folder.path}: {difference}\nUse another folder, or continue anyway with --force")


def refuse_imported(folder: RunFolder) -> None:
    """Refuse to train in the folder of an imported model, which has neither data nor the state of an optimiser."""
    if folder.data_manifest.is_file() and folder.data_copy(lambda: folder.path).is_empty:
        raise UserError(
            f"{folder.path}: an imported model, whose training cannot be continued; start a new run from it: "
            f'start_from = "{folder.path}", with data prepared with its tokenizer'
        )


def refuse_no_examples(own: Store) -> None:
    """Refuse to read examples of an imported model, which has none."""
    if own.is_empty:
        raise UserError(
            f"{own.folder}: an imported model without data of its own; give some: lamina evaluate {own.folder} --data "
            "FILE"
        )


def is_longer(config: RunConfig, former: RunConfig, store: Store) -> bool:
    """Whether a config asks for more steps, or more epochs, than the run was started with."""
    if _length(config) == _length(former):
        return False
    plan = build_task(config.task, store, config.task_options).plan("train", config.data, config.seed)
    return planned_steps(config, plan) > planned_steps(former, plan)


def _length(config: RunConfig) -> str:
    steps, epochs = config.train.steps, config.train.epochs
    return f"train.epochs = {epochs}" if steps is None else f"train.steps = {steps:,}"


def _starts_elsewhere(folder: RunFolder, former: RunConfig, config: RunConfig, store: Store) -> bool:
    """Whether the config names other weights to start from; those of a run that was moved are the same."""
    if (former.start_from, former.start_from_checkpoint) == (config.start_from, config.start_from_checkpoint):
        return False  # they are not read again
    before, now = StartingPoint.load(folder.started_from), find_start(config, store)
    return (before.sha256 if before else None) != (now.sha256 if now else None)


def refuse_other_data(folder: RunFolder, own: Manifest, store: Store) -> None:
    """Refuse to evaluate or diagnose a model on a store that is not the one it was trained on."""
    if difference := _data_difference(own, store):
        raise UserError(
            f"{folder.path}: {difference}\nPrepare it as it was, or set data.store in {folder.config} to the folder "
            "where the data of this run is now"
        )


def _data_difference(own: Manifest, store: Store) -> str:
    """The differences between a store's content and the run's own manifest, in words; empty if there are none."""
    if own.content_hash == store.manifest.content_hash:
        return ""
    listing = list_differences(differences(_describe(own), _describe(store.manifest)))
    return (
        f"the data is not what this run was started with: {store.folder} was prepared again, from other sources or "
        f"settings:{listing}"
    )


def _describe(manifest: Manifest) -> dict[str, Any]:
    """The settings, sources, tokenizers and sizes of a store, with hashes shortened to 12 digits."""
    return manifest.model_dump(mode="json", include={"settings"}) | {
        "source": {f"{each.split} {each.path}": each.sha256[:12] for each in manifest.sources},
        "tokenizer": {field: manifest.files[name].sha256[:12] for field, name in manifest.tokenizers.items()},
        "examples": {name: record.examples for name, record in manifest.splits.items()},
    }


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], kind: type[Options] | None = None, prefix: str = ""
) -> Iterator[Difference]:
    """The keys of two nested tables whose values differ; None stands for a missing one.

    kind: the class of options that the values belong to. If the task or the residual scheme differs, its options are
        not compared.
    """
    owners = options_of(kind) if kind else {}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if key in owners and before.get(owners[key]) != after.get(owners[key]):
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, section_of(kind, key) if kind else None, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new


def list_differences(differences: Iterable[Difference]) -> str:
    return "".join(f"\n  {key}: was {old!r}, is {new!r}" for key, old, new in differences)
