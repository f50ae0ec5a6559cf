"""The readers of data formats, one per file: `tsv.py` reads `format = "tsv"`.

A reader yields examples one at a time, and every error names file and line. Installed packages add readers through the
entry-point group `lamina.readers`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lamina.data.readers.base import Example, Notes, Reader, Request, Unit
from lamina.registry import Registry

__all__ = ["READERS", "Example", "Notes", "Reader", "Request", "Unit", "make_reader"]

READERS = Registry(__name__, Reader, kind="format", group="lamina.readers", attribute="format")


def make_reader(
    format: str,
    sources: tuple[str, ...],
    split: str,
    columns: Mapping[str, int | str],
    labels: tuple[str, ...] = (),
    unit: Unit = "line",
    collected: set[str] | None = None,
) -> Reader:
    """The reader of `format` over `sources`; nothing is opened yet."""
    return READERS[format].open(Request(sources, split, columns, labels, unit, collected))
