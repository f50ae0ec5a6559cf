"""Preparing a data set of the catalogue by name.

Nothing is downloaded. `lamina prepare NAME --folder FOLDER` looks for the files in FOLDER, unpacks the archives there,
and otherwise says which files to download. Archives are kept; each is unpacked into a folder with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.config import read_overrides, read_values
from lamina.data.catalogue import SOURCES, Source
from lamina.data.language_pair import LanguagePair
from lamina.data.prepare_options import PrepareOptions
from lamina.data.synthetic import known_fields
from lamina.errors import UserError, unknown
from lamina.files.archive import unpack
from lamina.files.hashes import hash_file
from lamina.options import section_of

LoadTasks = Callable[[], Mapping[str, Source]]
"""A function that imports all tasks and returns the data sets that they bring, by name. It is called only for names
that this package does not know, because tasks import torch."""


def find_source(chosen: str | Source, load_tasks: LoadTasks = dict) -> Source:
    """The data set of that name, of the catalogue or of a task; a `Source` is returned unchanged."""
    if isinstance(chosen, Source):
        return chosen
    found = SOURCES if chosen in SOURCES else SOURCES | dict(load_tasks())
    if chosen not in found:
        raise unknown("data set", chosen, found)
    return found[chosen]


def source_options(chosen: str | Source, folder: str, output: str, **changes: Any) -> PrepareOptions:
    """The options that prepare a data set from `folder`, unpacking its archives first; `changes` override."""
    source = find_source(chosen)
    name = chosen if isinstance(chosen, str) else source.title
    _unpack_missing(name, source, Path(folder))
    options = source.options | (_opus_pairs(Path(folder), source.pairs) if source.pairs else {})
    prepared = PrepareOptions.read({**options, "folder": folder, "output": output, **changes}, name)
    missing = [file for file in _files(prepared) if source.downloads and not (Path(folder) / file).exists()]
    if missing:
        raise _explain_missing(name, source, folder, missing)
    return prepared


def chosen_options(
    what: str, overrides: Sequence[str], chosen: Mapping[str, Any], load_tasks: LoadTasks = dict
) -> PrepareOptions:
    """The options of a TOML file or of a named set, overridden by `key=value` arguments and then by `chosen`."""
    if what.endswith(".toml"):
        values = {**read_values(what, overrides), **chosen}
        columns = values.get("columns")
        if isinstance(columns, Mapping) and not set(columns) <= set(known_fields()):
            load_tasks()  # one of them may read a field of its own
        return PrepareOptions.read(values, where=what)
    source = find_source(what, load_tasks)
    changes = {**read_overrides(overrides), **chosen}
    for key in changes.keys() & source.options.keys():
        if section_of(PrepareOptions, key) is not None:  # a changed key leaves the others of its section
            changes[key] = {**source.options[key], **changes[key]}
    if "output" not in changes:
        raise UserError(f"say where the store goes: lamina prepare {what} --output data/{what}")
    named = what if what in SOURCES else source
    return source_options(named, changes.pop("folder", "."), changes.pop("output"), **changes)


def describe(name: str, load_tasks: LoadTasks = dict) -> str:
    """A text about the set: what it is, where to download it and how to prepare it."""
    return _describe(name, find_source(name, load_tasks))


def _describe(name: str, source: Source) -> str:
    lines = [f"{source.title}. Licence: {source.licence}.", source.notes]
    if not source.downloads:
        return "\n".join([*filter(None, lines), f"Prepare: lamina prepare {name} --output <store>"])
    lines.append("Fetch:")
    lines += [f"  {get.file}  from  {get.url}  sha256 {get.sha256 or 'not published'}" for get in source.downloads]
    lines.append(f"Then: lamina prepare {name} --folder <folder with these files> --output <store>")
    return "\n".join(line for line in lines if line)


def _unpack_missing(name: str, source: Source, folder: Path) -> None:
    for download in source.downloads:
        archive, target = folder / download.file, folder / download.folder
        if not download.folder or target.exists() or not archive.is_file():
            continue
        if download.sha256 is not None and hash_file(archive) != download.sha256:
            raise UserError(
                f"{archive}: not the file of {name} (its SHA-256 is not {download.sha256}). It is incomplete or "
                f"another version; download it again from {download.url}."
            )
        unpack(archive, target)


def _explain_missing(name: str, source: Source, folder: str, missing: list[str]) -> UserError:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return UserError(
        f"{name}: {Path(folder) / missing[0]}{more} not found. Put the files listed here into {folder}, packed as they "
        f"come; Lamina does not download by itself.\n{_describe(name, source)}"
    )


def _files(options: PrepareOptions) -> list[str]:
    sets = [options.sets(split) for split in ("train", "valid", "test")]
    return [file for files in sets for chosen in files.values() for file in chosen]


def _opus_pairs(folder: Path, pairs: str) -> dict[str, Any]:
    """The files of every language pair in the folder; a few pairs have training text only."""
    found: dict[str, dict[str, list[str]]] = {"train": {}, "valid": {}, "test": {}}
    for name in sorted(path.name for path in (folder / pairs).glob("*-*") if path.is_dir()):
        languages = LanguagePair.of_set(name) or ()
        for split, part in (("train", "train"), ("valid", "dev"), ("test", "test")):
            files = [f"{pairs}/{name}/opus.{name}-{part}.{language}" for language in languages]
            if files and all((folder / file).is_file() for file in files):
                found[split][name] = files
    if not found["train"]:
        found["train"] = {"de-en": [f"{pairs}/de-en/opus.de-en-train.{language}" for language in ("de", "en")]}
    return found
