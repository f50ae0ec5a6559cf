"""JSON objects, one per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.data.readers import Notes
from lamina.errors import UserError
from support.reading import fields, read, write


def test_jsonl_with_nested_keys_and_labels(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"translation": {"de": "eins", "en": "one\nstill one"}, "x": 1},
        {"translation": {"de": "", "en": "two"}},
    ]
    path = write(tmp_path, "a.jsonl.gz", "\n".join(map(json.dumps, records)) + "\n\n")
    notes = Notes()
    columns = {"source": "translation.de", "target": "translation.en"}
    assert fields(read("jsonl", path, notes=notes, columns=columns)) == [("eins", "one\nstill one")]
    assert notes.dropped_lines() == {"empty": {path: [2, 3]}}
    labelled = write(tmp_path, "b.jsonl", '{"t": "x", "l": 1}\n')
    assert fields(read("jsonl", labelled, columns={"text": "t", "label": "l"}, labels=("0", "1"))) == [("x", 1)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"text": "a"', r"line 2: not valid JSON"),
        ("[" * 100_000, r"line 2: not valid JSON"),
        ('["a"]', r"line 2: expected a JSON object"),
        ('{"txt": "a"}', r"line 2: no column 'text'; there are \['txt'\]. Did you mean 'txt'"),
        ('{"text": 5}', r"line 2: column 'text' is int, not text"),
        ('{"text": null}', r"line 2: column 'text' is NoneType, not text"),
        ('{"text": "a\\u0000"}', r"line 2: .*NUL"),
        ('{"text": "\\ud800"}', r"line 2: .*U\+D800"),
    ],
)
def test_jsonl_faults(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path, "bad.jsonl", '{"text": "fine"}\n' + line + "\n")
    with pytest.raises(UserError, match=complaint):
        read("jsonl", path, columns={"text": "text"})
    with pytest.raises(UserError, match="format = 'jsonl' needs columns"):
        read("jsonl", path)
