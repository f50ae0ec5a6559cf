"""Writing so that a reader sees the old or the new, never a half: temporary name, fsync, rename."""

from __future__ import annotations

import os
from pathlib import Path

from lamina.errors import UserError


def write_file(path: str | Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all."""
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
    """Make the names in a folder as durable as the contents of its files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
