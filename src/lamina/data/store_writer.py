"""Writing a store: into a hidden folder beside it, which is renamed when everything is on disk.

Only one process writes at a time: it holds a lock on the hidden folder. A killed process leaves that folder behind,
unlocked, and the next process empties it. If writing fails, the hidden folder is removed and nothing else changes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from lamina.data.store import MANIFEST, FieldRecord, Manifest, SplitRecord, Store, offset_path, partial_path, token_path
from lamina.errors import UserError
from lamina.files.atomic import sync_folder
from lamina.files.hashes import FileRecord
from lamina.files.lock import FolderLock


class ArrayWriter:
    """A .npy file to which values, or rows of `width` values, are appended."""

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.dtype, self.width = dtype, width
        self.length = 0
        self._handle = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._handle.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Write the final length into the header, where numpy leaves space for it, and close the file."""
        start = self._handle.tell() - self.length * max(1, self.width) * self.dtype.itemsize
        self._handle.seek(0)
        self._write_header()
        assert self._handle.tell() == start
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()

    def abandon(self) -> None:
        """Close without writing; on a full disk even that may fail."""
        with suppress(OSError):
            self._handle.close()

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.length, self.width) if self.width else (self.length,)

    def _write_header(self) -> None:
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(self._handle, header)


class FieldWriter:
    """Writes the two arrays of one field and counts its tokens, words and characters."""

    def __init__(self, folder: Path, split: str, field: str, dtype: np.dtype[Any]) -> None:
        """`dtype` is that of a token, or of a frame: a sub-array of features, `np.dtype((np.float32, 80))`."""
        width = dtype.shape[0] if dtype.shape else 0
        self._tokens = ArrayWriter(token_path(folder, split, field), dtype.base, width)
        self._sum, self._sum_of_squares = np.zeros(width), np.zeros(width)
        self._offsets = ArrayWriter(offset_path(folder, split, field), np.dtype(np.int64))
        self._offsets.append(np.zeros(1, np.int64))
        self._longest = 0
        self.words = self.characters = self.truncated = self.unknown = 0

    def append(self, flat: np.ndarray, lengths: np.ndarray) -> None:
        self._offsets.append(self._tokens.length + np.cumsum(lengths))
        self._tokens.append(flat)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        if self._tokens.width:
            self._sum += flat.sum(axis=0, dtype=np.float64)
            self._sum_of_squares += np.square(flat, dtype=np.float64).sum(axis=0)

    def close(self) -> FieldRecord:
        self._tokens.close()
        self._offsets.close()
        mean = self._sum / max(1, self._tokens.length)
        variance = np.maximum(self._sum_of_squares / max(1, self._tokens.length) - mean**2, 0)
        return FieldRecord(
            dtype=self._tokens.dtype.name,
            tokens=self._tokens.length,
            longest=self._longest,
            words=self.words,
            characters=self.characters,
            truncated=self.truncated,
            unknown=self.unknown,
            width=self._tokens.width,
            mean=tuple(mean.tolist()),
            deviation=tuple(np.sqrt(variance).tolist()),
        )

    def abandon(self) -> None:
        self._tokens.abandon()
        self._offsets.abandon()


class SplitWriter:
    """Writes the fields of one split."""

    def __init__(self, folder: Path, name: str, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.fields = {field: FieldWriter(folder, name, field, dtype) for field, dtype in dtypes.items()}
        self.examples = 0

    def append(self, sequences: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
        """Append examples, given as concatenated tokens and lengths for every field."""
        counts = {len(lengths) for _, lengths in sequences.values()}
        assert len(counts) == 1
        assert sequences.keys() == self.fields.keys()
        for field, (flat, lengths) in sequences.items():
            self.fields[field].append(flat, lengths)
        self.examples += counts.pop()

    def close(self, dropped: Mapping[str, int], repaired: Mapping[str, int]) -> SplitRecord:
        fields = {field: writer.close() for field, writer in self.fields.items()}
        return SplitRecord(examples=self.examples, fields=fields, dropped=dict(dropped), repaired=dict(repaired))

    def abandon(self) -> None:
        for field in self.fields.values():
            field.abandon()


class StoreWriter:
    """Writes a store; a context manager that leaves either a finished store or nothing."""

    def __init__(self, folder: str | Path, replace: bool = False) -> None:
        self._target = Path(os.path.abspath(folder))
        self._old = self._target.with_name(f".{self._target.name}.lamina-replaced")
        self._replace = replace
        self._splits: list[SplitWriter] = []
        self.folder = partial_path(self._target)
        self._lock = FolderLock(self.folder)

    def __enter__(self) -> StoreWriter:
        try:
            self._claim()
            try:
                self._recover()
                self._refuse_to_overwrite()
            except BaseException:
                self._abandon()
                raise
        except OSError as error:
            raise self._explain(error) from error
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._lock.release()
        else:
            self._abandon()
        if isinstance(error, OSError):
            raise self._explain(error) from error

    def split(self, name: str, dtypes: Mapping[str, np.dtype[Any]]) -> SplitWriter:
        """The writer of a new split."""
        self._splits.append(SplitWriter(self.folder, name, dtypes))
        return self._splits[-1]

    def write(self, name: str, content: bytes) -> None:
        """Write a small file beside the arrays."""
        with (self.folder / name).open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())

    def finish(self, **about: Any) -> Store:
        """Hash every file, write the manifest with the other values of `about`, and rename the folder."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        records = {path.relative_to(self.folder).as_posix(): FileRecord.of(path) for path in files}
        self.write(MANIFEST, Manifest(files=records, **about).dump())
        for folder in (*(path for path in self.folder.rglob("*") if path.is_dir()), self.folder):
            sync_folder(folder)
        self._publish()
        return Store.open(self._target)

    def _publish(self) -> None:
        self._refuse_to_overwrite()
        if self._target.exists():
            self._target.rename(self._old)
        self.folder.rename(self._target)
        sync_folder(self._target.parent)
        shutil.rmtree(self._old, ignore_errors=True)

    def _recover(self) -> None:
        """Undo what a process left that was killed inside `_publish`: the old store, renamed or beside the new one."""
        if self._old.exists() and not self._target.exists():
            self._old.rename(self._target)
        shutil.rmtree(self._old, ignore_errors=True)

    def _abandon(self) -> None:
        for split in self._splits:
            split.abandon()
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self._recover()
        self._lock.release()

    def _refuse_to_overwrite(self) -> None:
        if not self._target.exists() or (self._target.is_dir() and not any(self._target.iterdir())):
            return
        if not (self._target / MANIFEST).is_file():
            raise UserError(f"{self._target}: exists and is not a finished store; choose another output.")
        if not self._replace:
            raise UserError(
                f"{self._target}: a store exists already; choose another output, or replace it (--replace)."
            )

    def _claim(self) -> None:
        """Lock the hidden folder and remove the files that a killed process left."""
        if not self._lock.acquire():
            raise UserError(f"{self._target}: another lamina prepare is writing this store; wait for it.")
        for left in self.folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _explain(self, error: OSError) -> UserError:
        return UserError(
            f"{self._target}: the store could not be written ({error.strerror or error}). Nothing is left behind; make "
            f"room or choose another output, and run lamina prepare again."
        )
