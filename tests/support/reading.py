"""Writing a file and reading it with one of the readers."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from lamina.data.readers import Example, Notes, make_reader


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return str(path)


def read(format: str, *files: str, notes: Notes | None = None, **options: Any) -> list[Example]:
    reader = make_reader(format, files, "train", **{"columns": {}, **options})
    reader.check()
    return list(reader.read(notes or Notes()))


def fields(examples: list[Example]) -> list[tuple[str | int, ...]]:
    return [tuple(example.fields.values()) for example in examples]
