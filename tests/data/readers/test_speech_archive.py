"""Tar archives of recordings and their transcripts, in both notations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lamina.data.readers import Notes, make_reader
from lamina.errors import UserError
from support.speech_files import TEXTS, archive, recordings, tone


def read(*files: Path) -> tuple[list[str], Notes]:
    reader, notes = make_reader("speech-archive", tuple(map(str, files)), "train", {}), Notes()
    reader.check()
    return [str(example.fields["target"]) for example in reader.read(notes)], notes


def transcripts(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_several_archives_share_one_file_of_transcripts(tmp_path: Path) -> None:
    sounds = list(recordings().items())
    first = archive(tmp_path / "a.tar", dict(sounds[:2]))
    second = archive(tmp_path / "b.tar", dict(sounds[2:]), folder="other/")
    sphinx = transcripts(tmp_path / "t.txt", [f"<s> {text} </s> ({name})" for name, text in TEXTS.items()])
    plain = transcripts(tmp_path / "u.txt", [f"{name} {text}" for name, text in TEXTS.items()])
    for file in (sphinx, plain):
        found, notes = read(first, second, file)
        assert found == list(TEXTS.values())
        assert notes.dropped() == {}
    reader = make_reader("speech-archive", (str(first), str(second), str(plain)), "train", {})
    *_, last = reader.read(Notes())
    assert np.abs(last.fields["audio"].samples(16_000) - tone(600.0)).max() < 1e-4


def test_wrong_archives_are_refused(tmp_path: Path) -> None:
    texts = transcripts(tmp_path / "t.txt", [f"{name} {text}" for name, text in TEXTS.items()])
    good = archive(tmp_path / "a.tar", recordings())
    outside = archive(tmp_path / "outside.tar", recordings(), folder="../")
    (tmp_path / "broken.tar").write_bytes(b"no archive at all" * 100)
    for files, message in (
        ((outside, texts), "would lead out"),
        ((tmp_path / "broken.tar", texts), "not a readable, uncompressed tar"),
        ((tmp_path / "gone.tar", texts), "gone.tar: no such file"),
        ((texts,), "name one or more .tar archives"),
        ((good,), "no file of transcripts follows"),
        ((good, archive(tmp_path / "b.tar", recordings()), texts), "a second recording called"),
    ):
        with pytest.raises(UserError, match=message):
            read(*files)


def test_two_transcripts_of_one_recording_are_refused(tmp_path: Path) -> None:
    good = archive(tmp_path / "a.tar", recordings())
    with pytest.raises(UserError, match=r"line 2: a second transcript of 's1-c1-0000'; the first is in line 1"):
        read(good, transcripts(tmp_path / "t.txt", ["s1-c1-0000 YES", "s1-c1-0000 NO"]))
