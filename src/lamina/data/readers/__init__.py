"""Readers: each format's examples, lazily, one at a time, with every fault named by file and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

from lamina.data.readers.columns import Labels
from lamina.data.readers.embedded import EmbeddedSets
from lamina.data.readers.example import Example, Notes
from lamina.data.readers.glue import GlueFiles
from lamina.data.readers.hub import HubSets
from lamina.data.readers.jsonl import JsonlFiles
from lamina.data.readers.parallel import ParallelFiles
from lamina.data.readers.plain import PlainFiles, Unit
from lamina.data.readers.tsv import TsvFiles
from lamina.data.readers.wikitext import WikitextFiles
from lamina.errors import UserError

Format = Literal["parallel", "tsv", "jsonl", "plain", "glue", "wikitext", "hub", "embedded"]

__all__ = ["Example", "Format", "Labels", "Notes", "Reader", "Unit", "make_reader"]


class Reader(Protocol):
    """What every format offers."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files read, in order."""

    def check(self) -> None:
        """Refuse before any work what can be refused by looking: missing files, unequal counts, missing columns."""

    def read(self, notes: Notes) -> Iterator[Example]:
        """The examples, lazily."""


def make_reader(
    format: Format,
    files: tuple[str, ...],
    split: str,
    columns: Mapping[str, int | str],
    labels: tuple[str, ...] = (),
    unit: Unit = "line",
) -> Reader:
    """The reader of `format` over `files`; nothing is opened yet."""
    match format:
        case "parallel":
            if len(files) % 2:
                raise UserError(f"{split}: parallel files come in couples, source then target; {len(files)} given.")
            return ParallelFiles(tuple(zip(files[::2], files[1::2], strict=True)))
        case "tsv":
            return TsvFiles(files, columns or {"source": 1, "target": 2}, Labels(labels))
        case "jsonl":
            return JsonlFiles(files, _keys(format, columns), Labels(labels))
        case "hub":
            return HubSets.parse(files, split, _keys(format, columns), Labels(labels))
        case "embedded":
            return EmbeddedSets.parse(files, split)
        case "plain":
            return PlainFiles(files, unit)
        case "glue":
            return GlueFiles(files, Labels(labels))
        case "wikitext":
            return WikitextFiles(files)


def _keys(format: Format, columns: Mapping[str, int | str]) -> dict[str, str]:
    if not columns:
        raise UserError(f"format = {format!r} needs columns, for example columns = {{source = 'de', target = 'en'}}.")
    return {field: str(key) for field, key in columns.items()}
