"""LibriSpeech's own folders: speaker/chapter/*.flac beside speaker-chapter.trans.txt, a line `name TEXT` each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.data.readers.transcripts import folder_recordings, join, read_transcripts
from lamina.errors import UserError


@dataclass(frozen=True)
class LibrispeechFolders(Reader):
    """Folders such as `train-clean-100`; yields the fields `audio` and `target`."""

    format = "librispeech"
    folders: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> LibrispeechFolders:
        return cls(request.sources)

    @cached_property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """The transcripts. The recordings are not hashed one by one; their features are."""
        found = []
        for folder in self.folders:
            if not os.path.isdir(folder):
                raise UserError(f"{folder}: no such folder; name one of LibriSpeech's, such as train-clean-100.")
            own = sorted(str(path) for path in Path(folder).rglob("*.trans.txt"))
            if not own:
                raise UserError(f"{folder}: no *.trans.txt in it or below; expected speaker/chapter/…trans.txt.")
            found += own
        return tuple(found)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            yield from join(folder_recordings(Path(file).parent), read_transcripts(file, notes), notes)
