"""A file of JSON lines, each with its step. After a kill, at most the last line is incomplete, and it is dropped."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.hashes import FileRecord


class JsonLines:
    """A line is written by one system call: readers see it as soon as `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._hashed = 0
        """The number of bytes that `_hash` has read."""
        self._hash = hashlib.sha256()

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        """Add a line; NaN and infinities, which JSON does not have, become null."""
        line = _encode({"step": step} | _finite(values))
        try:
            descriptor = self._open()
            end = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) < len(line):
                    raise OSError(None, "only a part could be written")
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be written ({error.strerror}); make room and resume the run."
            ) from error

    def rewind(self, step: int, keep: Callable[[Mapping[str, Any]], bool] = lambda line: True) -> None:
        """Remove the lines of later steps, those that `keep` refuses, and an incomplete last line.

        The file is replaced atomically.
        """
        self.close()
        self._hashed, self._hash = 0, hashlib.sha256()
        kept = [_encode(line) for line in self.read() if line["step"] <= step and keep(line)]
        if self.path.exists():
            write_file(self.path, b"".join(kept))

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines, without an incomplete last one."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return
        for number, line in enumerate(lines, start=1):
            try:
                values = json.loads(line)
                int(values["step"])
            except (ValueError, TypeError, KeyError):
                warnings.warn(f"{self.path}:{number}: not a line of JSON with a step; left out.", stacklevel=2)
            else:
                yield values

    def record(self) -> FileRecord | None:
        """Size and hash of the complete lines; None if there is no file. What was hashed before is not read again."""
        try:
            with self.path.open("rb") as handle:
                if handle.seek(0, os.SEEK_END) < self._hashed:
                    self._hashed, self._hash = 0, hashlib.sha256()
                handle.seek(self._hashed)
                added = handle.read()
        except FileNotFoundError:
            return None
        added = added[: added.rfind(b"\n") + 1]
        self._hash.update(added)
        self._hashed += len(added)
        return FileRecord(bytes=self._hashed, sha256=self._hash.hexdigest())

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
            whole = self.path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(self._descriptor, whole)
        return self._descriptor


def _encode(line: Mapping[str, Any]) -> bytes:
    """A line as UTF-8; an unpaired surrogate, which UTF-8 cannot encode, is written as a JSON escape."""
    return (json.dumps(line, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
