"""SHA-256 hashes of files and of JSON values, and JSON files that contain their own hash: manifests and results."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.options import Options


class FileRecord(Options):
    """Size and hash of one file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """The record of a file as it is now."""
        return cls(sha256=hash_file(path), bytes=path.stat().st_size)


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


class Damaged(UserError):
    """A file is missing, or not as it was written."""


def seal_json(text: bytes) -> bytes:
    """The text of a JSON object with the hash of that text as its first key."""
    return b'{\n "sha256": "%s",' % hashlib.sha256(text).hexdigest().encode() + text.removeprefix(b"{")


def unseal_json(path: Path, content: bytes) -> bytes:
    """The text of a JSON object without its hash; raises `Damaged` if it was changed.

    Text without a hash, as earlier versions wrote it, is returned as it is.
    """
    found = re.match(rb'\{\n "sha256": "([0-9a-f]{64})",', content)
    if found is None:
        return content
    text = b"{" + content[found.end() :]
    if hashlib.sha256(text).hexdigest().encode() != found[1]:
        raise Damaged(f"{path}: damaged, its content has changed since it was written.")
    return text


@dataclass(frozen=True)
class ManifestFormat:
    """A JSON file with a format, a version and its own hash, by which a change to it is detected.

    {"format": "lamina-store", "version": 1, "sha256": "…", "manifest": {…}}          section = "manifest"
    {"format": "lamina-checkpoint", "version": 1, "files": {…}, "sha256": "…"}        section = None
    """

    name: str
    version: int
    section: str | None = None
    """The key of the body, which alone is hashed; without one, the body stands beside format and version and is hashed
    with them."""

    def dump(self, body: dict[str, Any]) -> bytes:
        """The sealed file."""
        header = {"format": self.name, "version": self.version}
        if self.section is None:
            sealed = header | body
            sealed |= {"sha256": hash_json(sealed)}
        else:
            sealed = header | {"sha256": hash_json(body), self.section: body}
        return (json.dumps(sealed, ensure_ascii=False, indent=1) + "\n").encode()

    def load(self, path: Path) -> dict[str, Any]:
        """The body of a file; raises `Damaged` if it was changed, and a `UserError` if it has another version."""
        try:
            content = path.read_bytes()
            sealed = json.loads(content)
            found = replace(self, name=sealed["format"], version=sealed["version"])
            header = ("format", "version", "sha256")
            body = sealed[self.section] if self.section else {key: sealed[key] for key in sealed if key not in header}
            whole = found.dump(body) == content
        except OSError as error:
            raise Damaged(f"{path}: cannot be read ({error.strerror}).") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise Damaged(f"{path}: damaged, its content has changed since it was written.")
        if found != self:
            raise UserError(
                f"{path}: made by another version of Lamina (found {found.name} {found.version}, this one reads "
                f"{self.name} {self.version})."
            )
        return dict(body)
