"""SHA-256 hashes of files and of JSON values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lamina.errors import UserError
from lamina.options import Options


class FileRecord(Options):
    """Size and hash of one file."""

    bytes: int
    sha256: str


def hash_json(value: object) -> str:
    """The hash of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
