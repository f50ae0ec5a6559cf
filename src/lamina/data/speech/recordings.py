"""Recordings: audio in a file, in a file of an uncompressed tar archive, or generated, read as mono samples.

Every format that libsndfile reads is accepted (FLAC, WAV, Ogg, MP3). Channels are averaged and other sample rates are
converted by soxr; both are counted. Audio that is damaged, truncated or empty raises `UnreadableAudio`, which names the
recording.
"""

from __future__ import annotations

import importlib
import io
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lamina.errors import UserError

Samples = NDArray[np.float32]

RESAMPLED, AVERAGED = "resampled", "channels averaged"


class UnreadableAudio(UserError):
    """A recording that cannot be read; `lamina prepare` may skip it instead."""


class Recording(Protocol):
    """The protocol of recordings: anything that can be read as samples."""

    def samples(self, rate: int, repaired: Counter[str] | None = None) -> Samples:
        """Mono samples between -1 and 1 at `rate` samples per second; conversions are counted in `repaired`."""

    def identity(self) -> list[str | int | float]:
        """Values that identify this recording and its present content."""


@dataclass(frozen=True)
class AudioFile:
    """A file, or the part of a tar archive that is one."""

    path: str
    name: str = ""
    """The name inside the archive; empty for a file of its own."""
    start: int = 0
    size: int | None = None
    """The bytes of the archive that are this file."""

    def __str__(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path

    def samples(self, rate: int, repaired: Counter[str] | None = None) -> Samples:
        return decode(self._read(), rate, str(self), repaired)

    def identity(self) -> list[str | int | float]:
        try:
            status = os.stat(self.path)
        except OSError:
            return [self.path, self.name]
        return [os.path.abspath(self.path), self.name, self.start, status.st_size, status.st_mtime_ns]

    def _read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                file.seek(self.start)
                return file.read(-1 if self.size is None else self.size)
        except OSError as error:
            raise UnreadableAudio(f"{self}: cannot be read ({error.strerror}).") from None


def why_unreadable(path: str) -> str:
    """Why a file cannot be opened, found without reading it; empty if it can."""
    if os.path.isfile(path) and os.access(path, os.R_OK):
        return "" if os.path.getsize(path) else "empty"
    if not os.path.exists(path):
        return "no such file"
    return "not readable" if os.path.isfile(path) else "not a file"


def decode(content: bytes, rate: int, name: str, repaired: Counter[str] | None = None) -> Samples:
    """The mono samples of an encoded audio file at `rate` samples per second."""
    soundfile = import_speech("soundfile")
    if not content:
        raise UnreadableAudio(f"{name}: the file is empty.")
    if _is_truncated_wav(content):
        raise UnreadableAudio(f"{name}: truncated, shorter than its header says.")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            own_rate, expected = int(file.samplerate), int(file.frames)
            found = file.read(dtype="float32", always_2d=True)  # (samples, channels)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise UnreadableAudio(f"{name}: not readable as audio, or damaged ({_reason(error)}).") from None
    if len(found) == 0:
        raise UnreadableAudio(f"{name}: contains no samples.")
    if len(found) < expected:
        raise UnreadableAudio(f"{name}: truncated; {len(found):,} of {expected:,} samples are there.")
    if not np.isfinite(found).all():
        raise UnreadableAudio(f"{name}: contains samples that are not finite.")
    if found.shape[1] > 1:
        _count(repaired, AVERAGED)
    mono = found.mean(axis=1)
    if own_rate != rate:
        _count(repaired, RESAMPLED)
        mono = import_speech("soxr").resample(mono, own_rate, rate)
    return np.ascontiguousarray(mono, np.float32)


def import_speech(module: str) -> Any:
    """A package of the extra `speech`."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError):  # OSError: the wheel without its shared library
        raise UserError(f"speech needs {module}; install it with `pip install 'lamina[speech]'`.") from None


def _is_truncated_wav(content: bytes) -> bool:
    """Whether a RIFF file is shorter than its header says, which libsndfile accepts silently."""
    return content[:4] == b"RIFF" and int.from_bytes(content[4:8], "little") + 8 > len(content)


def _reason(error: Exception) -> str:
    """libsndfile's own words, without the address of the buffer."""
    return str(getattr(error, "error_string", error)).strip().rstrip(".") or type(error).__name__


def _count(counts: Counter[str] | None, reason: str) -> None:
    if counts is not None:
        counts[reason] += 1
