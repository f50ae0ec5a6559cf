"""Atomic writes: to a temporary file, fsync, then rename. A reader sees the former content or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from lamina.errors import UserError


def write_file(path: str | Path, content: bytes) -> None:
    """Replace the content of a file; if that fails, the former content stays."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
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


def sync_folder(path: str | Path) -> None:
    """Sync a folder, so that the names of new and renamed files in it survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
