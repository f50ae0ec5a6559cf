"""The manifest of a store: what it was made from and with, and the hash of every byte in it.

`manifest.json` is written last and sealed with its own hash, so its presence means a finished store and any change
to it is noticed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, model_validator

from lamina.errors import UserError
from lamina.files.hashes import FileRecord, hash_json
from lamina.options import Options

FILE = "manifest.json"

_FORMAT, _VERSION = "lamina-store", 1
_WAY_OUT = "Run lamina prepare again, with --replace if the folder is in the way."


def _inside(name: str) -> str:
    """A relative path that stays inside the store, whoever wrote the manifest."""
    if not re.fullmatch(r"[\w+.-]+(/[\w+.-]+)*", name) or ".." in name.split("/"):
        raise ValueError("not a name inside the store")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class SourceRecord(Options):
    """One file, or one set on the hub, that went into the store. A hub set has its commit in place of a hash."""

    split: str
    path: str
    bytes: int
    sha256: str


class FieldRecord(Options):
    """One field of one split."""

    dtype: str
    tokens: int
    longest: int
    words: int
    """Words between white space in the text of the kept examples, before any truncation; 0 for labels."""
    characters: int
    truncated: int


class SplitRecord(Options):
    """One split: its size, its fields, and what was left out on the way."""

    examples: int
    fields: dict[Name, FieldRecord]
    dropped: dict[str, int]
    repaired: dict[str, int]


class Manifest(Options):
    """Everything a store says about itself."""

    settings: dict[str, Any]
    sources: tuple[SourceRecord, ...]
    labels: tuple[str, ...]
    tokenizers: dict[Name, Name]
    """The tokenizer file of each text field."""
    splits: dict[Name, SplitRecord]
    files: dict[Name, FileRecord]

    @model_validator(mode="after")
    def _check_tokenizers(self) -> Manifest:
        for name in self.tokenizers.values():
            if name not in self.files:
                raise ValueError(f"the tokenizer {name} is not among the files")
        return self

    @property
    def settings_sha256(self) -> str:
        return hash_json(self.settings)

    def dump(self) -> bytes:
        """The sealed JSON file."""
        body = self.model_dump(mode="json")
        sealed = {"format": _FORMAT, "version": _VERSION, "sha256": hash_json(body), "manifest": body}
        return (json.dumps(sealed, ensure_ascii=False, indent=1) + "\n").encode()

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a finished, unchanged store of this version, or say what is wrong with it."""
        try:
            sealed = json.loads((folder / FILE).read_bytes())
            described = (sealed["format"], sealed["version"])
        except OSError as error:
            raise UserError(f"{folder}: {FILE} cannot be read ({error.strerror}). {_WAY_OUT}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{folder / FILE}: damaged, or not the manifest of a store. {_WAY_OUT}") from None
        if described != (_FORMAT, _VERSION):
            raise UserError(
                f"{folder}: made by another version of Lamina (found {described[0]} {described[1]}, this one reads "
                f"{_FORMAT} {_VERSION}). {_WAY_OUT}"
            )
        if sealed.get("sha256") != hash_json(sealed.get("manifest")):
            raise UserError(f"{folder / FILE}: was changed after it was written. {_WAY_OUT}")
        return cls.read(sealed["manifest"], str(folder / FILE))
