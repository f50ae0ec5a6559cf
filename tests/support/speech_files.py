"""Small corpora of recordings, written as LibriSpeech and AN4 are."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import soundfile

TEXTS = {"s1-c1-0000": "YES", "s1-c1-0001": "GO ON", "s1-c1-0002": "STOP"}


def tone(hertz: float, seconds: float = 0.3) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(int(16_000 * seconds)) / 16_000)


def flac(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="FLAC")
    return file.getvalue()


def recordings() -> dict[str, bytes]:
    return {name: flac(tone(200.0 * number)) for number, name in enumerate(TEXTS, start=1)}


def librispeech(folder: Path, sounds: dict[str, bytes], texts: dict[str, str]) -> Path:
    chapter = folder / "set" / "s1" / "c1"
    chapter.mkdir(parents=True)
    for name, content in sounds.items():
        (chapter / f"{name}.flac").write_bytes(content)
    (chapter / "s1-c1.trans.txt").write_text("".join(f"{name} {text}\n" for name, text in texts.items()))
    return folder / "set"


def archive(path: Path, sounds: dict[str, bytes], folder: str = "s1/") -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in sounds.items():
            member = tarfile.TarInfo(f"{folder}{name}.flac")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
