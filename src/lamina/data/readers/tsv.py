"""Tab-separated values, without quoting: a quotation mark is a character like any other.

Columns are chosen by number (from 1, no header line) or by name (the first line is the header). Every line must have
as many columns as the first: a stray tab would otherwise move text from one column to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lamina.data.readers.base import EMPTY, Example, LabelSet, Notes, Reader, Request, is_blank
from lamina.data.readers.columns import make_example, missing_column
from lamina.errors import UserError
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class TsvFiles(Reader):
    """Files of rows; `columns` maps each field to the number or the name of its column."""

    format = "tsv"
    files: tuple[str, ...]
    columns: Mapping[str, int | str]
    labels: LabelSet

    @classmethod
    def open(cls, request: Request) -> TsvFiles:
        return cls(request.sources, request.columns or {"source": 1, "target": 2}, request.label_set)

    def check(self) -> None:
        kinds = {type(column) for column in self.columns.values()}
        if len(kinds) != 1:
            raise UserError(f"columns {dict(self.columns)}: give all by number (no header) or all by name (header).")
        for file in self.files:
            self._places(file, next(read_lines(file)).split("\t"))

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            yield from self._read_file(file, notes)

    def _read_file(self, file: str, notes: Notes) -> Iterator[Example]:
        rows = enumerate(read_lines(file, notes.repaired), start=1)
        places: dict[str, int] = {}
        width = 0
        for number, row in rows:
            cells = row.split("\t")
            if number == 1:
                places, width = self._places(file, cells), len(cells)
                if self._has_header:
                    continue
            if is_blank(row):
                notes.drop(EMPTY, file, number)
                continue
            if len(cells) != width:
                raise UserError(f"{file}, line {number}: {len(cells)} columns where the first line has {width}.")
            values = {field: cells[place] for field, place in places.items()}
            example = make_example(values, self.labels, file, number, notes, self.columns)
            if example is not None:
                yield example

    @property
    def _has_header(self) -> bool:
        return any(isinstance(column, str) for column in self.columns.values())

    def _places(self, file: str, first: list[str]) -> dict[str, int]:
        """The position of each field in a row, from the first line of the file."""
        present = first if self._has_header else [str(number) for number in range(1, len(first) + 1)]
        for column in self.columns.values():
            if str(column) not in present:
                raise missing_column(f"{file}, line 1", column, present)
        return {field: present.index(str(column)) for field, column in self.columns.items()}
