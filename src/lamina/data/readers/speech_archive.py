"""Recordings in uncompressed tar archives, with transcripts in text files: `a.tar`, `b.tar`, `both.txt`.

The archives before a transcript file belong to it. A line of it is `name TEXT`, or `<s> TEXT </s> (name)` as in AN4;
the name is that of the recording without folder and ending.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.data.readers.transcripts import archive_members, join, read_transcripts
from lamina.data.speech.recordings import AudioFile
from lamina.errors import UserError
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class SpeechArchives(Reader):
    """Archives, each group followed by its transcripts; yields the fields `audio` and `target`."""

    format = "speech-archive"
    files: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> SpeechArchives:
        reader = cls(request.sources)
        if not reader.groups or any(not archives for archives, _ in reader.groups):
            raise UserError(f"{request.split}: name one or more .tar archives of audio, then the file of transcripts.")
        return reader

    @property
    def groups(self) -> list[tuple[tuple[str, ...], str]]:
        """The archives of each transcript file."""
        found: list[tuple[tuple[str, ...], str]] = []
        archives: tuple[str, ...] = ()
        for file in self.files:
            if file.endswith(".tar"):
                archives += (file,)
            else:
                found.append((archives, file))
                archives = ()
        if archives:
            raise UserError(f"{archives[-1]}: no file of transcripts follows this archive.")
        return found

    def check(self) -> None:
        for archives, file in self.groups:
            for archive in archives:
                archive_members(archive)
            next(read_lines(file))

    def read(self, notes: Notes) -> Iterator[Example]:
        for archives, file in self.groups:
            recordings: dict[str, AudioFile] = {}
            for archive in archives:
                members = archive_members(archive)
                for name in members.keys() & recordings.keys():
                    raise UserError(
                        f"{members[name]}: a second recording called {name!r}; the first is {recordings[name]}."
                    )
                recordings |= members
            yield from join(recordings, read_transcripts(file, notes), notes)
