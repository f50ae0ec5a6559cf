"""Comparison of files with their recorded hashes; results are cached, so that unchanged files are hashed only once.

The cache is a small JSON file per folder in the user's cache folder (`$LAMINA_CACHE`, else `$XDG_CACHE_HOME/lamina`,
else `~/.cache/lamina`), outside the folder that it describes. A file counts as unchanged while its size, times, inode
and device are unchanged. The cache only saves time: if it is missing or damaged, all files are hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.hashes import FileRecord, hash_file

_SETTLED = 2_000_000_000
"""Nanoseconds after its last change until a file is cached: a further change within the clock's resolution would not
change its times."""


def changed_files(folder: Path, records: Mapping[str, FileRecord]) -> dict[str, str]:
    """The files of a folder that are not as recorded, each with the reason, such as `missing`."""
    memory = _memory_file(folder)
    remembered = _read(memory)
    changed: dict[str, str] = {}
    verified: dict[str, list[Any]] = {}
    for name, record in records.items():
        reason = _compare(folder / name, record, remembered.get(name), verified, name)
        if reason:
            changed[name] = reason
    if verified != remembered and memory is not None:
        _write(memory, verified)
    return changed


def cache_folder() -> Path | None:
    """The folder for files that can be recomputed; None if the user has no home folder."""
    if chosen := os.environ.get("LAMINA_CACHE"):
        return Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "lamina"
    try:
        return Path.home() / ".cache" / "lamina"
    except RuntimeError:
        return None


def _compare(path: Path, record: FileRecord, known: object, verified: dict[str, list[Any]], name: str) -> str:
    """The reason why a file differs from its record; empty if it does not, and it is then added to `verified`."""
    try:
        before = _identity(path)
    except OSError:
        return "missing"
    size = before[0]
    if not path.is_file() or size != record.bytes:
        return f"{size} bytes long instead of {record.bytes}"
    if known != [*before, record.sha256]:
        if hash_file(path) != record.sha256:
            return "its content has changed"
        if time.time_ns() - max(before[1], before[2]) < _SETTLED or _identity(path) != before:
            return ""  # as recorded, but changed too recently to be cached
    verified[name] = [*before, record.sha256]
    return ""


def _identity(path: Path) -> list[int]:
    """Size, times of the last change of content and of attributes, inode and device."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _memory_file(folder: Path) -> Path | None:
    cache = cache_folder()
    name = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:32]
    return None if cache is None else cache / "verified" / f"{name}.json"


def _read(memory: Path | None) -> dict[str, Any]:
    if memory is None:
        return {}
    try:
        found = json.loads(memory.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(memory: Path, verified: dict[str, list[Any]]) -> None:
    with suppress(OSError, UserError):  # a read-only home or a full disk: files are hashed again next time
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_file(memory, json.dumps(verified).encode())
