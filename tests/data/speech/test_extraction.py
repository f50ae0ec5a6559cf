"""Features of many recordings: the same from one process, several, or chunks; bad audio; resuming."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.data.speech.extraction import FeatureExtractor, SpeechOptions
from lamina.data.speech.filterbank import log_mel
from lamina.data.speech.recordings import AudioFile
from lamina.data.synthetic.speech import spoken_sentences
from lamina.errors import UserError
from support.speech_files import flac, tone

VOICES = [sentence for sentence, _ in spoken_sentences("train", 20)]


def test_one_process_and_several_give_the_features_of_each_recording(tmp_path: Path) -> None:
    expected = [log_mel(voice.samples(16_000), SpeechOptions()) for voice in VOICES]
    for processes in (1, 2):
        with FeatureExtractor(SpeechOptions(), tmp_path / str(processes), processes) as extract:
            found = extract(VOICES)
        assert found.lengths.tolist() == [len(each) for each in expected]
        assert np.array_equal(found.features, np.concatenate(expected))


def test_an_interrupted_extraction_reuses_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract = FeatureExtractor(SpeechOptions(), tmp_path, 1)
    first = extract(VOICES[:4])
    monkeypatch.setattr("lamina.data.speech.extraction.log_mel", lambda *_: pytest.fail("computed again"))
    again = extract(VOICES[:4])
    assert np.array_equal(first.features, again.features)
    monkeypatch.undo()
    [chunk] = tmp_path.iterdir()
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    assert np.array_equal(extract(VOICES[:4]).features, first.features), "a damaged chunk is computed again"
    FeatureExtractor(SpeechOptions(bins=40), tmp_path, 1)(VOICES[:4])
    assert len(list(tmp_path.iterdir())) == 2, "other options have chunks of their own"
    extract.discard_chunks()
    assert not tmp_path.exists()


def test_bad_audio_stops_or_is_skipped_and_counted(tmp_path: Path) -> None:
    files = {"good": flac(tone(300)), "broken": flac(tone(300))[:500], "short": flac(tone(300, 0.02))}
    for name, content in files.items():
        (tmp_path / f"{name}.flac").write_bytes(content)
    clips = [AudioFile(str(tmp_path / f"{name}.flac")) for name in (*files, "gone")]
    with pytest.raises(UserError, match=r"broken\.flac: .*speech\.bad_audio = 'skip'"):
        FeatureExtractor(SpeechOptions(), tmp_path / "a", 1)(clips)
    found = FeatureExtractor(SpeechOptions(bad_audio="skip"), tmp_path / "b", 1)(clips)
    assert found.dropped == {1: "unreadable audio", 2: "too short", 3: "unreadable audio"}
    assert found.lengths.tolist() == [28, 0, 0, 0]
    limited = FeatureExtractor(SpeechOptions(max_frames=20), tmp_path / "c", 1)(clips[:1])
    assert limited.dropped == {0: "too long"}


@dataclass(frozen=True)
class KillingRecording:
    """Ends the process that reads it, as the system does when memory runs out."""

    number: int

    def samples(self, *_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def identity(self) -> list[int]:
        return [self.number]


def test_a_process_that_is_killed_is_one_clear_error(tmp_path: Path) -> None:
    recordings: Any = [KillingRecording(number) for number in range(20)]
    with (
        FeatureExtractor(SpeechOptions(), tmp_path, 2) as extract,
        pytest.raises(UserError, match="ended abruptly, perhaps for lack of memory; run the same again"),
    ):
        extract(recordings)
    assert list(tmp_path.iterdir()) == []
