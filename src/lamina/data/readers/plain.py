"""Running text: one example per line, or per paragraph where lines are wrapped and blank lines separate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import EMPTY, Example, Notes, Reader, Request, Unit, is_blank
from lamina.errors import UserError
from lamina.files.text_lines import LONGEST_LINE, read_lines


@dataclass(frozen=True)
class PlainFiles(Reader):
    """Text files, yielding the field `text`."""

    format = "plain"
    files: tuple[str, ...]
    unit: Unit = "line"

    @classmethod
    def open(cls, request: Request) -> PlainFiles:
        return cls(request.sources, request.unit)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            yield from _read_by_line(file, notes) if self.unit == "line" else _read_by_paragraph(file, notes)


def _read_by_line(file: str, notes: Notes) -> Iterator[Example]:
    for number, line in enumerate(read_lines(file, notes.repaired), start=1):
        if is_blank(line):
            notes.drop(EMPTY, file, number)
        else:
            yield Example({"text": line}, file, number)


def _read_by_paragraph(file: str, notes: Notes) -> Iterator[Example]:
    """Blank lines separate paragraphs, so they are not counted as dropped; wrapped lines are joined by a space."""
    paragraph: list[str] = []
    start = size = 0
    for number, line in enumerate(read_lines(file, notes.repaired), start=1):
        if is_blank(line):
            if paragraph:
                yield Example({"text": " ".join(paragraph)}, file, start)
            paragraph = []
            continue
        if not paragraph:
            start, size = number, 0
        paragraph.append(line.strip())
        size += len(line)
        if size > LONGEST_LINE:
            raise UserError(f"{file}, line {start}: a paragraph of over {LONGEST_LINE >> 20} MiB; use unit = 'line'.")
    if paragraph:
        yield Example({"text": " ".join(paragraph)}, file, start)
