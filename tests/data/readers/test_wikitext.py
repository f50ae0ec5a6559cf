"""WikiText."""

from __future__ import annotations

from pathlib import Path

from lamina.data.readers import Notes
from support.reading import fields, read, write


def test_wikitext_keeps_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "wiki.tokens", " \n = Title = \n \n The <unk> @-@ word . \n")
    notes = Notes()
    assert fields(read("wikitext", path, notes=notes)) == [("",), ("= Title =",), ("",), ("The <unk> @-@ word .",)]
    assert notes.dropped() == {}
