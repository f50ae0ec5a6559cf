"""The seal on a checkpoint: `manifest.json`, with the size and SHA-256 of every file beside it and of itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.files.hashes import FileRecord, hash_file, hash_json
from lamina.run_folder.checkpoints import MANIFEST

_FORMAT, _VERSION = "lamina-checkpoint", 1


class DamagedCheckpoint(UserError):
    """A file of a checkpoint is not as it was written."""


def seal(folder: Path) -> None:
    """Write the manifest of all files that are in the folder now, and in the folders within."""
    records = {name: _record(folder / name) for name in sorted(_names_in(folder, "."))}
    body = {"format": _FORMAT, "version": _VERSION, "files": {name: dict(record) for name, record in records.items()}}
    (folder / MANIFEST).write_bytes(_dump(body | {"sha256": hash_json(body)}))


def check(folder: Path, names: Collection[str]) -> None:
    """Make sure that the files of these names are, byte for byte, those that were sealed.

    In place of `model.safetensors` there may be a folder `model`: then all files in it, and no others.
    """
    sealed = _read_manifest(folder / MANIFEST)
    for name in names:
        inside = Path(name).stem
        within = {each for each in sealed if each.startswith(f"{inside}/")} | _names_in(folder, inside)
        for each in sorted(within) if within and name not in sealed else [name]:
            _check_file(folder, each, sealed)


def _check_file(folder: Path, name: str, sealed: Mapping[str, Any]) -> None:
    if name not in sealed:
        raise DamagedCheckpoint(f"{folder / name}: not in the manifest, so the checkpoint is damaged.")
    try:
        found, record = _record(folder / name), FileRecord.read(sealed[name], name)
    except UserError as error:
        raise DamagedCheckpoint(str(error)) from error
    if found.bytes != record.bytes:
        raise DamagedCheckpoint(f"{folder / name}: damaged, {found.bytes} bytes long instead of {record.bytes}.")
    if found != record:
        raise DamagedCheckpoint(f"{folder / name}: damaged, its content has changed since it was written.")


def _names_in(folder: Path, inside: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in (folder / inside).rglob("*") if path.is_file()}


def _read_manifest(path: Path) -> dict[str, Any]:
    """The records of the files, once the manifest itself is known to be as it was written."""
    try:
        raw = path.read_bytes()
        body = dict(json.loads(raw))
        whole = _dump(body) == raw and body.pop("sha256") == hash_json(body)
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        raise DamagedCheckpoint(f"{path}: damaged, its content has changed since it was written.")
    if (body["format"], body["version"]) != (_FORMAT, _VERSION):
        raise UserError(
            f"{path}: made by another version of Lamina (found {body['format']} {body['version']}, this one reads "
            f"{_FORMAT} {_VERSION})."
        )
    return dict(body["files"])


def _record(path: Path) -> FileRecord:
    return FileRecord(sha256=hash_file(path), bytes=path.stat().st_size)


def _dump(body: dict[str, Any]) -> bytes:
    return (json.dumps(body, indent=1) + "\n").encode()
