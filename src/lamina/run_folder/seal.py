"""The seal on a checkpoint: `manifest.json`, with the size and SHA-256 of every file beside it and of itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.files.hashes import Damaged, FileRecord, ManifestFormat
from lamina.run_folder.checkpoints import MANIFEST

FORMAT = ManifestFormat("lamina-checkpoint", 1)


class DamagedCheckpoint(UserError):
    """A file of a checkpoint is not as it was written."""


def seal(folder: Path) -> dict[str, FileRecord]:
    """Write the manifest of all files in the folder and its subfolders; returns its records."""
    records = {name: FileRecord.of(folder / name) for name in sorted(_names_in(folder, "."))}
    (folder / MANIFEST).write_bytes(FORMAT.dump({"files": {name: dict(each) for name, each in records.items()}}))
    return records


def check(folder: Path, names: Collection[str]) -> None:
    """Check that the files of these names are, byte for byte, those that were sealed.

    If there is a folder `model` in place of `model.safetensors`, all its files are checked, and it may have no others.
    """
    try:
        sealed = FORMAT.load(folder / MANIFEST)["files"]
    except Damaged as error:
        raise DamagedCheckpoint(str(error)) from error
    for name in names:
        inside = Path(name).stem
        within = {each for each in sealed if each.startswith(f"{inside}/")} | _names_in(folder, inside)
        for each in sorted(within) if within and name not in sealed else [name]:
            _check_file(folder, each, sealed)


def hashes_of(folder: Path, name: str) -> dict[str, str]:
    """The sealed hashes of a file, or of all shards in the folder that is in its place, by name."""
    sealed = FORMAT.load(folder / MANIFEST)["files"]
    inside = f"{Path(name).stem}/"
    return {
        each: FileRecord.read(sealed[each], each).sha256 for each in sealed if each == name or each.startswith(inside)
    }


def _check_file(folder: Path, name: str, sealed: Mapping[str, Any]) -> None:
    if name not in sealed:
        raise DamagedCheckpoint(f"{folder / name}: not in the manifest, so the checkpoint is damaged.")
    try:
        found, record = FileRecord.of(folder / name), FileRecord.read(sealed[name], name)
    except UserError as error:
        raise DamagedCheckpoint(str(error)) from error
    if found.bytes != record.bytes:
        raise DamagedCheckpoint(f"{folder / name}: damaged, {found.bytes} bytes long instead of {record.bytes}.")
    if found != record:
        raise DamagedCheckpoint(f"{folder / name}: damaged, its content has changed since it was written.")


def _names_in(folder: Path, inside: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in (folder / inside).rglob("*") if path.is_file()}
