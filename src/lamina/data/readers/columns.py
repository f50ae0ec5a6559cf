"""Fields from named or numbered columns: shared by the readers of records (TSV, JSONL, GLUE, hub)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from lamina.data.readers.base import EMPTY, Example, LabelSet, Notes, is_blank
from lamina.data.speech.recordings import AudioFile, Recording
from lamina.errors import UserError, nearest
from lamina.files.text_lines import check_text

LABEL, AUDIO = "label", "audio"
"""The fields that are not text: the label of an example, and the path of a recording, relative to the file that names
it."""


def make_example(
    values: Mapping[str, object], labels: LabelSet, file: str, line: int, notes: Notes, names: Mapping[str, object]
) -> Example | None:
    """The example of a record with checked values; None, with a note, if one of its texts is blank."""
    where = f"{file}, line {line}"
    fields: dict[str, str | int | Recording] = {}
    for field, value in values.items():
        if field == LABEL:
            fields[field] = labels.identify(value, where)
        elif field == AUDIO and isinstance(value, str) and value.strip():
            fields[field] = AudioFile(os.path.join(os.path.dirname(file), check_text(value.strip(), where)))
        elif isinstance(value, str):
            fields[field] = check_text(value, where)
        else:
            raise UserError(f"{where}: column {names[field]!r} is {type(value).__name__}, not text.")
    if any(isinstance(value, str) and is_blank(value) for value in fields.values()):
        notes.drop(EMPTY, file, line)
        return None
    return Example(fields, file, line)


def keys_of(format: str, columns: Mapping[str, int | str]) -> dict[str, str]:
    """The keys of records that have names, not numbers, for their columns."""
    if not columns:
        raise UserError(f"format = {format!r} needs columns, for example columns = {{source = 'de', target = 'en'}}.")
    return {field: str(key) for field, key in columns.items()}


def missing_column(where: str, column: object, present: Sequence[str]) -> UserError:
    """The error for a column that a record does not have."""
    guess = nearest(str(column), present)
    hint = f" Did you mean {guess!r}?" if guess else ""
    return UserError(f"{where}: no column {column!r}; there are {list(present)}.{hint}")
