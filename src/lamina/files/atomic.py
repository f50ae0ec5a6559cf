"""Atomic writes: to a temporary file, fsync, then rename. A reader sees the former content or the new one."""

from __future__ import annotations

import glob
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from lamina.errors import UserError

SECONDS_BEFORE_REMOVAL = 3600.0
"""A younger file may belong to a process, perhaps on another machine, that is still writing it."""


def write_file(path: str | Path, content: bytes) -> None:
    """Replace the content of a file; if that fails, the former content stays."""
    path = Path(path)
    temporary = partial_path(path)
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); nothing was changed.") from error


def partial_path(path: Path) -> Path:
    """The name that a file or a folder has while it is written; those that killed processes left are removed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > SECONDS_BEFORE_REMOVAL:
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def sync_folder(path: str | Path) -> None:
    """Sync a folder, so that the names of new and renamed files in it survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
