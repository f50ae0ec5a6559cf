"""Recordings: formats, rates, channels, and every kind of damaged audio."""

from __future__ import annotations

import io
import sys
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lamina.data.speech.recordings import AudioFile, UnreadableAudio, decode
from lamina.errors import UserError

soundfile = pytest.importorskip("soundfile")


def tone(seconds: float = 0.5, rate: int = 16_000, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def encoded(samples: np.ndarray, rate: int = 16_000, format: str = "WAV", **options: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, **options)
    return file.getvalue()


@pytest.mark.parametrize(("format", "tolerance"), [("WAV", 1e-4), ("FLAC", 1e-4), ("OGG", 0.1)])
def test_formats_give_the_same_samples(format: str, tolerance: float) -> None:
    samples = decode(encoded(tone(), format=format), 16_000, "a")
    assert samples.dtype == np.float32
    assert np.abs(samples - tone()).max() < tolerance


def test_another_rate_is_converted_and_counted() -> None:
    repaired: Counter[str] = Counter()
    samples = decode(encoded(tone(rate=44_100), rate=44_100), 16_000, "a", repaired)
    assert abs(len(samples) - 8_000) <= 1
    assert np.abs(samples[200:-200] - tone()[200 : len(samples) - 200]).max() < 0.01
    assert repaired == {"resampled": 1}


def test_channels_are_averaged_and_counted() -> None:
    repaired: Counter[str] = Counter()
    stereo = np.stack([tone(), 0.5 * tone()], axis=1)
    assert np.abs(decode(encoded(stereo), 16_000, "a", repaired) - 0.75 * tone()).max() < 1e-4
    assert repaired == {"channels averaged": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"not audio at all", "not readable"),
        (encoded(tone())[:4_000], "truncated"),
        (encoded(tone(), format="FLAC")[:2_000], "damaged"),
        (encoded(np.zeros(0)), "no samples"),
        (encoded(np.full(100, np.nan), subtype="FLOAT"), "not finite"),
    ],
)
def test_bad_audio_is_named(content: bytes, message: str) -> None:
    with pytest.raises(UnreadableAudio, match=rf"clip\.wav: .*{message}"):
        decode(content, 16_000, "clip.wav")


def test_a_file_inside_a_tar_archive(tmp_path: Path) -> None:
    path = tmp_path / "clips.tar"
    with tarfile.open(path, "w") as archive:
        for name, hertz in (("a.flac", 300.0), ("b.flac", 600.0)):
            content = encoded(tone(hertz=hertz), format="FLAC")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with tarfile.open(path) as archive:
        member = archive.getmember("b.flac")
    clip = AudioFile(str(path), "b.flac", member.offset_data, member.size)
    assert np.abs(clip.samples(16_000) - tone(hertz=600.0)).max() < 1e-4
    assert str(clip).endswith("clips.tar: b.flac")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableAudio, match=r"gone\.wav: cannot be read \(No such file"):
        AudioFile(str(tmp_path / "gone.wav")).samples(16_000)


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[speech\]'"):
        decode(b"RIFF", 16_000, "a")
