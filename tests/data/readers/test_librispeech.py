"""LibriSpeech's folders: recordings beside their transcripts; what is missing on either side is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lamina.data.readers import Notes, make_reader
from lamina.errors import UserError
from support.speech_files import TEXTS, librispeech, recordings, tone


def test_recordings_are_joined_with_their_transcripts(tmp_path: Path) -> None:
    folder = librispeech(tmp_path, recordings(), TEXTS)
    reader, notes = make_reader("librispeech", (str(folder),), "train", {}), Notes()
    reader.check()
    examples = list(reader.read(notes))
    assert [example.fields["target"] for example in examples] == list(TEXTS.values())
    assert np.abs(examples[1].fields["audio"].samples(16_000) - tone(400.0)).max() < 1e-4
    assert notes.dropped() == {}


def test_what_is_missing_on_either_side_is_counted(tmp_path: Path) -> None:
    sounds = recordings()
    del sounds["s1-c1-0001"]
    texts = {name: text for name, text in TEXTS.items() if name != "s1-c1-0002"}
    reader, notes = make_reader("librispeech", (str(librispeech(tmp_path, sounds, texts)),), "train", {}), Notes()
    assert [example.fields["target"] for example in reader.read(notes)] == ["YES"]
    assert notes.dropped() == {"transcript without audio": 1, "audio without transcript": 1}


def test_links_are_not_followed(tmp_path: Path) -> None:
    sounds = recordings()
    folder = librispeech(tmp_path, {}, TEXTS)
    (tmp_path / "elsewhere.flac").write_bytes(sounds["s1-c1-0000"])
    (folder / "s1" / "c1" / "s1-c1-0000.flac").symlink_to(tmp_path / "elsewhere.flac")
    notes = Notes()
    assert list(make_reader("librispeech", (str(folder),), "train", {}).read(notes)) == []
    assert notes.dropped() == {"transcript without audio": 3}


@pytest.mark.parametrize(("folder", "message"), [("gone", "no such folder"), (".", "no \\*.trans.txt")])
def test_wrong_folders_are_named(tmp_path: Path, folder: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_reader("librispeech", (str(tmp_path / folder),), "train", {}).check()
