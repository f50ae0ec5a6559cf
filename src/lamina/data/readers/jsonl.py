"""One JSON object per line; a field is taken from a key, or from a nested one written `outer.inner`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lamina.data.readers.base import EMPTY, Example, LabelSet, Notes, Reader, Request, is_blank
from lamina.data.readers.columns import keys_of, make_example, missing_column
from lamina.errors import UserError
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class JsonlFiles(Reader):
    """Files of JSON objects; `columns` maps each field to its key."""

    format = "jsonl"
    files: tuple[str, ...]
    columns: Mapping[str, str]
    labels: LabelSet

    @classmethod
    def open(cls, request: Request) -> JsonlFiles:
        return cls(request.sources, keys_of(cls.format, request.columns), request.label_set)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            for number, line in enumerate(read_lines(file, notes.repaired), start=1):
                if is_blank(line):
                    notes.drop(EMPTY, file, number)
                    continue
                where = f"{file}, line {number}"
                record = _parse(line, where)
                values = {field: look_up(record, key, where) for field, key in self.columns.items()}
                example = make_example(values, self.labels, file, number, notes, self.columns)
                if example is not None:
                    yield example


def look_up(record: Mapping[str, object], key: str, where: str) -> object:
    """`record[key]`, or for `outer.inner` the value inside a nested object."""
    if key in record:
        return record[key]
    outer, dot, inner = key.partition(".")
    nested = record.get(outer)
    if dot and isinstance(nested, Mapping):
        return look_up(nested, inner, where)
    raise missing_column(where, key, [str(name) for name in record])


def _parse(line: str, where: str) -> Mapping[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid JSON ({error}).") from None
    if not isinstance(record, dict):
        raise UserError(f'{where}: expected a JSON object such as {{"text": "…"}}, not {type(record).__name__}.')
    return record
