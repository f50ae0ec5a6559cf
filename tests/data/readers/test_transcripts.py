"""Lines of transcripts, and lists of recordings in TSV and JSONL files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.readers import Notes, make_reader
from lamina.data.readers.transcripts import read_transcripts
from lamina.data.speech.recordings import AudioFile


def test_both_notations_and_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("a  TWO WORDS \n\n<s> MORE </s> (b)\nONE (c)\nd\n")
    found = read_transcripts(str(file), Notes())
    assert {name: each.text for name, each in found.items()} == {"a": "TWO WORDS", "b": "MORE", "c": "ONE", "d": ""}
    assert found["c"].line == 4


@pytest.mark.parametrize(
    ("format", "content"),
    [("tsv", "path\ttext\nclips/a.wav\tyes\n"), ("jsonl", '{"path": "clips/a.wav", "text": "yes"}\n')],
)
def test_lists_of_recordings(tmp_path: Path, format: str, content: str) -> None:
    file = tmp_path / f"list.{format}"
    file.write_text(content)
    reader = make_reader(format, (str(file),), "train", {"audio": "path", "target": "text"})
    [example] = reader.read(Notes())
    assert example.fields == {"audio": AudioFile(str(tmp_path / "clips" / "a.wav")), "target": "yes"}
