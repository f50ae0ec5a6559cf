"""Recordings joined with their transcripts: shared by the readers of speech corpora."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lamina.data.readers.base import EMPTY, Example, Notes, is_blank
from lamina.data.readers.columns import AUDIO
from lamina.data.speech.recordings import AudioFile
from lamina.errors import UserError
from lamina.files.text_lines import check_file, read_lines

TARGET = "target"
NO_AUDIO, NO_TRANSCRIPT = "transcript without audio", "audio without transcript"
AUDIO_ENDINGS = (".flac", ".wav", ".ogg", ".mp3")

_SPHINX = re.compile(r"(.*)\(([^()\s]+)\)\s*")
_SENTENCE_MARKS = re.compile(r"\s*</?s>\s*")


class Transcript(NamedTuple):
    """The text of a recording, and where it was read."""

    text: str
    file: str
    line: int


def read_transcripts(file: str, notes: Notes) -> dict[str, Transcript]:
    """The transcripts of a file by the names of their recordings.

    A line is `name TEXT`, as in LibriSpeech and Kaldi, or `<s> TEXT </s> (name)`, as in the files of CMU Sphinx.
    """
    found: dict[str, Transcript] = {}
    for number, line in enumerate(read_lines(file, notes.repaired), start=1):
        if is_blank(line):
            continue
        sphinx = _SPHINX.fullmatch(line)
        if sphinx is not None:
            name, text = sphinx[2], _SENTENCE_MARKS.sub(" ", sphinx[1]).strip()
        else:
            name, _, text = line.strip().partition(" ")
        if name in found:
            raise UserError(
                f"{file}, line {number}: a second transcript of {name!r}; the first is in line {found[name].line}."
            )
        found[name] = Transcript(text.strip(), file, number)
    return found


def archive_members(file: str) -> dict[str, AudioFile]:
    """The recordings inside an uncompressed tar archive, by name without folder and ending."""
    found: dict[str, AudioFile] = {}
    try:
        with tarfile.open(check_file(file), "r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise UserError(f"{file}: {member.name!r} would lead out of the archive's folder; refused.")
                if member.isreg() and path.suffix.lower() in AUDIO_ENDINGS:
                    _add(found, path.stem, AudioFile(file, member.name, member.offset_data, member.size))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{file}: not a readable, uncompressed tar archive ({error}).") from None
    return found


def folder_recordings(folder: Path) -> dict[str, AudioFile]:
    """The recordings directly inside a folder, by name without ending; links are not followed."""
    found: dict[str, AudioFile] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in AUDIO_ENDINGS and path.is_file() and not path.is_symlink():
            _add(found, path.stem, AudioFile(str(path)))
    return found


def join(recordings: Mapping[str, AudioFile], transcripts: Mapping[str, Transcript], notes: Notes) -> Iterator[Example]:
    """One example for each recording with a transcript, in the order of the transcripts; the others are noted."""
    for name, (text, file, line) in transcripts.items():
        if name not in recordings:
            notes.drop(NO_AUDIO, file, line)
        elif not text:
            notes.drop(EMPTY, file, line)
        else:
            yield Example({AUDIO: recordings[name], TARGET: text}, file, line)
    for number, (name, recording) in enumerate(recordings.items(), start=1):
        if name not in transcripts:
            notes.drop(NO_TRANSCRIPT, recording.path, number)


def _add(found: dict[str, AudioFile], name: str, recording: AudioFile) -> None:
    if name in found:
        raise UserError(f"{recording}: a second recording called {name!r}; the first is {found[name]}.")
    found[name] = recording
