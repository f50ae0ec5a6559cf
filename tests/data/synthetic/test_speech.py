"""The synthetic voice: the same on every call, disjoint splits, and words that can be told apart."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.data.synthetic.speech import RATE, SPEAKERS, Speaker, SpokenSentence, spoken_sentences, vocabulary
from lamina.errors import UserError


def power(samples: np.ndarray) -> float:
    return float(np.mean(samples.astype(np.float64) ** 2))


def test_the_same_recordings_every_time() -> None:
    first, second = (list(spoken_sentences("train", 3)) for _ in range(2))
    assert first == second
    assert np.array_equal(first[0][0].samples(RATE), second[0][0].samples(RATE))


def test_more_recordings_begin_with_the_same() -> None:
    assert list(spoken_sentences("valid", 5))[:3] == list(spoken_sentences("valid", 3))


def test_a_few_dozen_words() -> None:
    words = [word for members in vocabulary().values() for word in members]
    assert len(words) == len(set(words)) == 36


def test_sentences_and_speakers_of_splits_are_disjoint() -> None:
    texts = {split: {text for _, text in spoken_sentences(split, 300)} for split in SPEAKERS}
    assert not texts["train"] & (texts["valid"] | texts["test"])
    assert not texts["valid"] & texts["test"]
    voices = {split: {Speaker.of(split, number) for number in range(count)} for split, count in SPEAKERS.items()}
    assert len(set.union(*voices.values())) == sum(SPEAKERS.values())


def test_noise_levels() -> None:
    clean = [sentence.noise_ratio for sentence, _ in spoken_sentences("test", 20, level="clean")]
    other = [sentence.noise_ratio for sentence, _ in spoken_sentences("test", 20, level="other")]
    assert min(clean) > max(other) + 9
    both = [sentence.noise_ratio > 20 for sentence, _ in spoken_sentences("test", 20)]
    assert both == [True, False] * 10


@pytest.mark.parametrize("ratio", [0.0, 10.0, 20.0])
def test_the_signal_to_noise_ratio_is_as_stated(ratio: float) -> None:
    speaker = Speaker.of("train", 0)
    noisy = SpokenSentence("kano", speaker, ratio, 5).samples(RATE)
    quiet = SpokenSentence("kano", speaker, 200.0, 5).samples(RATE)
    assert abs(10 * np.log10(power(quiet) / power(noisy - quiet)) - ratio) < 0.5


def test_words_are_told_apart_by_formants() -> None:
    speaker = Speaker(pitch=120, tract=1.0, rate=1.0)

    def low_share(word: str) -> float:
        spectrum = np.abs(np.fft.rfft(SpokenSentence(word, speaker, 60.0, 1).samples(RATE))) ** 2
        return float(spectrum[: len(spectrum) * 600 // 8_000].sum() / spectrum.sum())

    assert low_share("i" * 5) > low_share("a" * 5)  # F1 of i is 270 Hz, of a 730 Hz


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(UserError, match="noise level"):
        next(spoken_sentences("train", 1, level="loud"))
    with pytest.raises(UserError, match="sample rate"):
        SpokenSentence("kano", Speaker.of("train", 0), 20.0, 1).samples(8_000)
