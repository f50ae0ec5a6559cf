"""Unpacking what others packed: into a fresh folder, whole or not at all, and never more than was allowed.

Only plain files and folders come out; links, devices, absolute and climbing names are refused, in tar archives by
the standard library's "data" filter and in zip archives by the same rules. Sizes are counted while writing, since
headers may lie. Archives: .tar, .tar.gz, .tgz, .tar.bz2, .zip.
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
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from lamina.errors import UserError
from lamina.files.atomic import sync_folder

MAX_BYTES = 100 << 30
MAX_MEMBERS = 100_000

_CHUNK = 1 << 20
_FAULTS = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


class Member(NamedTuple):
    """A plain file in an archive, or a folder when it has no content."""

    name: str
    content: IO[bytes] | None


def unpack(archive: str | Path, folder: str | Path, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS) -> Path:
    """Unpack `archive` as the new folder `folder`."""
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: exists already; an archive is unpacked into a new folder only.")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        _write_members(_members(archive, partial), partial, archive, max_bytes, max_members)
        _whole(partial, folder.name).rename(folder)
        sync_folder(folder.parent)
    except _FAULTS as error:
        raise UserError(f"{archive}: cannot be unpacked into {folder} ({error}); nothing was left there.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _whole(partial: Path, name: str) -> Path:
    """What becomes the folder: where all lies in one folder of its very name, that one, so that names do not double.

    Beside it, hidden files and the `__MACOSX` folder of some packers do not count.
    """
    others = [path for path in partial.iterdir() if path.name != name and not path.name.startswith((".", "__MACOSX"))]
    return partial / name if (partial / name).is_dir() and not others else partial


def _write_members(members: Iterator[Member], folder: Path, archive: Path, max_bytes: int, max_members: int) -> None:
    written = 0
    for number, member in enumerate(members, start=1):
        if number > max_members:
            raise UserError(f"{archive}: more than {max_members:,} members; refused.")
        path = folder / member.name
        if member.content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as target:  # "x": a second member of the same name is refused
            while chunk := member.content.read(_CHUNK):
                written += len(chunk)
                if written > max_bytes:
                    raise UserError(f"{archive}: unpacks to more than {max_bytes:,} bytes; refused.")
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())


def _members(archive: Path, folder: Path) -> Iterator[Member]:
    name = archive.name.lower()
    if not archive.is_file():
        raise UserError(f"{archive}: no such file.")
    if name.endswith(".zip"):
        return _zip_members(archive)
    if name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2")):
        return _tar_members(archive, folder)
    raise UserError(f"{archive}: not an archive Lamina unpacks; give .tar, .tar.gz, .tgz, .tar.bz2 or .zip.")


def _tar_members(archive: Path, folder: Path) -> Iterator[Member]:
    openers: dict[str, Any] = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".tar": open}
    open_file = openers[archive.suffix.lower()]
    with open_file(archive, "rb") as raw, _Sober(raw, _CHUNK) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
        for found in tar:
            member = tarfile.data_filter(found, str(folder))
            if not (member.isreg() or member.isdir()):
                raise UserError(f"{archive}: {found.name!r} is a link or a device; only plain files are unpacked.")
            yield Member(_safe(member.name, archive), tar.extractfile(found) if member.isreg() else None)


class _Sober(io.BufferedReader):
    """Refuses to read much at once: tarfile would take a header into memory however long it claims to be."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _CHUNK:
            raise tarfile.ReadError("a header of absurd size")
        return super().read(size)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as packed:
        for found in packed.infolist():
            kind = stat.S_IFMT(found.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UserError(f"{archive}: {found.filename!r} is a link or a device; only plain files are unpacked.")
            name = _safe(found.filename, archive)
            if found.is_dir():
                yield Member(name, None)
            else:
                with packed.open(found) as content:
                    yield Member(name, content)


def _safe(name: str, archive: Path) -> str:
    """A name that stays inside the folder on any system."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or PureWindowsPath(name).drive:
        raise UserError(f"{archive}: {name!r} would lead out of the folder; refused.")
    return name
