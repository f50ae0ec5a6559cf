"""Tab-separated values."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.readers import Notes
from lamina.errors import UserError
from support.reading import fields, read, write


def test_tsv_by_number_and_by_name(tmp_path: Path) -> None:
    plain = write(tmp_path, "plain.tsv", 'ein "Satz\ta "sentence\nzwei\ttwo\n\n \tblank\n')
    notes = Notes()
    assert fields(read("tsv", plain, notes=notes)) == [('ein "Satz', 'a "sentence'), ("zwei", "two")]
    assert notes.dropped_lines() == {"empty": {plain: [3, 4]}}
    named = write(tmp_path, "named.tsv.gz", "id\ten\tde\r\n1\tone\teins\r\n")
    assert fields(read("tsv", named, columns={"source": "de", "target": "en"})) == [("eins", "one")]
    assert fields(read("tsv", plain, columns={"text": 2})) == [('a "sentence',), ("two",), ("blank",)]


@pytest.mark.parametrize(
    ("content", "columns", "complaint"),
    [
        ("a\tb\nc\n", {}, r"line 2: 1 columns where the first line has 2"),
        ("a\tb\nc\td\te\n", {}, r"line 2: 3 columns where the first line has 2"),
        ("a\n", {}, r"line 1: no column 2; there are \['1'\]"),
        ("de\ten\na\tb\n", {"text": "eng"}, r"line 1: no column 'eng'; there are \['de', 'en'\]. Did you mean 'en'"),
        ("a\tb\n", {"source": 1, "target": "en"}, r"give all by number .* or all by name"),
    ],
)
def test_tsv_faults(tmp_path: Path, content: str, columns: dict[str, int | str], complaint: str) -> None:
    path = write(tmp_path, "bad.tsv", content)
    with pytest.raises(UserError, match=complaint):
        read("tsv", path, columns=columns)
