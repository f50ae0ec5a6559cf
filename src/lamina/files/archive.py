"""Unpacking archives (.tar, .tar.gz, .tgz, .tar.bz2, .zip) safely: into a new folder, completely or not at all.

Tar archives go through the standard library's `data` filter. It refuses absolute names, names and links that lead out
of the folder, and devices, and it ignores owners and special permissions. It does not limit sizes or the number of
members, accepts links within the folder, lets a second member of the same name replace the first, and keeps backslashes
and drive letters, which lead out of the folder on Windows. `_Limits` refuses those, and applies the same rules to zip
archives, for which the standard library has no filter.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from lamina.errors import UserError
from lamina.files.atomic import partial_path, sync_folder

MAX_BYTES = 100 << 30
MAX_MEMBERS = 100_000

_CHUNK = 1 << 20
_FAULTS = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_TAR_OPENERS: dict[str, Any] = {".tar": open, ".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open}


def unpack(archive: str | Path, folder: str | Path, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS) -> Path:
    """Unpack `archive` as the new folder `folder`."""
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: exists already; an archive is unpacked into a new folder only.")
    if not archive.is_file():
        raise UserError(f"{archive}: no such file; relative paths start at the working directory, {Path.cwd()}.")
    if not archive.name.lower().endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".zip")):
        raise UserError(f"{archive}: not an archive Lamina unpacks; give .tar, .tar.gz, .tgz, .tar.bz2 or .zip.")
    partial = partial_path(folder)
    limits = _Limits(archive, max_bytes, max_members)
    try:
        partial.mkdir(parents=True)
        if archive.suffix.lower() == ".zip":
            _unpack_zip(archive, partial, limits)
        else:
            _unpack_tar(archive, partial, limits)
        _sync_files(partial)
        _content(partial, folder.name).rename(folder)
        sync_folder(folder.parent)
    except _FAULTS as error:
        raise UserError(f"{archive}: cannot be unpacked into {folder} ({error}); nothing was left there.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


class _Limits:
    """Counts members and bytes, and refuses names that lead out of the folder or occur twice."""

    def __init__(self, archive: Path, max_bytes: int, max_members: int) -> None:
        self.archive, self.max_bytes, self.max_members = archive, max_bytes, max_members
        self._bytes = 0
        self._names: set[str] = set()
        self._members = 0

    def add_member(self, name: str, *, is_file: bool, is_folder: bool) -> None:
        self._members += 1
        if self._members > self.max_members:
            raise UserError(f"{self.archive}: more than {self.max_members:,} members; refused.")
        if not (is_file or is_folder):
            raise UserError(f"{self.archive}: {name!r} is a link or a device; only plain files are unpacked.")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or PureWindowsPath(name).drive:
            raise UserError(f"{self.archive}: {name!r} would lead out of the folder; refused.")
        if is_file and str(path) in self._names:
            raise tarfile.ReadError(f"two members are called {name!r}")
        self._names.add(str(path))

    def add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self.max_bytes:
            raise UserError(f"{self.archive}: unpacks to more than {self.max_bytes:,} bytes; refused.")

    def filter(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        """The `data` filter of the standard library, with the limits; called before each member is unpacked."""
        found = tarfile.data_filter(member, path)
        self.add_member(found.name, is_file=found.isreg(), is_folder=found.isdir())
        self.add_bytes(found.size)  # tarfile writes exactly as many bytes as the header says
        return found.replace(mode=0o644, deep=False) if found.isreg() else found


class _BoundedReader(io.BufferedReader):
    """Refuses to read much at once: tarfile would read a header of any claimed size into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _CHUNK:
            raise tarfile.ReadError("a header of absurd size")
        return super().read(size)


def _unpack_tar(archive: Path, folder: Path, limits: _Limits) -> None:
    open_file = _TAR_OPENERS[archive.suffix.lower()]
    with (
        open_file(archive, "rb") as raw,
        _BoundedReader(raw, _CHUNK) as reader,
        tarfile.open(fileobj=reader, mode="r:") as tar,
    ):
        tar.extractall(folder, filter=limits.filter)


def _unpack_zip(archive: Path, folder: Path, limits: _Limits) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            is_folder = member.is_dir()
            limits.add_member(member.filename, is_file=is_plain and not is_folder, is_folder=is_plain and is_folder)
            path = folder / member.filename
            (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
            if not is_folder:
                with packed.open(member) as content, path.open("xb") as target:
                    while chunk := content.read(_CHUNK):  # counted while writing, since a zip header may lie
                        limits.add_bytes(len(chunk))
                        target.write(chunk)


def _sync_files(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _content(partial: Path, name: str) -> Path:
    """The content of the new folder: the archive's only folder if it has the same name, otherwise everything.

    Hidden files and the `__MACOSX` folder of some packers are ignored beside that folder.
    """
    others = [path for path in partial.iterdir() if path.name != name and not path.name.startswith((".", "__MACOSX"))]
    return partial / name if (partial / name).is_dir() and not others else partial
