"""Running text."""

from __future__ import annotations

from pathlib import Path

from lamina.data.readers import Notes
from support.reading import fields, read, write


def test_plain_text_by_line_and_by_paragraph(tmp_path: Path) -> None:
    path = write(tmp_path, "book.txt", "A line\nwrapped \n\n\n second\u2028one\n  \nthird")
    notes = Notes()
    assert fields(read("plain", path, notes=notes)) == [("A line",), ("wrapped ",), (" second\u2028one",), ("third",)]
    assert notes.dropped() == {"empty": 3}
    examples = read("plain", path, unit="paragraph")
    assert fields(examples) == [("A line wrapped",), ("second\u2028one",), ("third",)]
    assert [example.line for example in examples] == [1, 5, 7]
