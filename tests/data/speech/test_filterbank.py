"""Log-mel filterbanks against kaldi-native-fbank and against their formula; normalisation."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.data.speech.filterbank import FilterbankOptions, log_mel, normalise, normalise_utterances
from lamina.data.synthetic.speech import spoken_sentences

kaldi = pytest.importorskip("kaldi_native_fbank")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    [(sentence, _)] = spoken_sentences("train", 1, level="clean")
    return sentence.samples(16_000)


def formula(samples: np.ndarray, bins: int) -> np.ndarray:
    """The equations in the module's docstring, in double precision."""
    length, shift, points = 400, 160, 512
    frames = []
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / (length - 1))) ** 0.85
    mel = lambda hertz: 1127 * np.log1p(np.asarray(hertz) / 700)  # noqa: E731
    edges = np.linspace(mel(20), mel(8_000), bins + 2)
    at = mel(np.arange(points // 2) * 16_000 / points)
    rising = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(rising, falling))  # (bins, points / 2)
    for start in range(0, len(samples) - length + 1, shift):
        x = samples[start : start + length].astype(np.float64) * 32_768
        x = x - x.mean()
        x = x - 0.97 * np.concatenate([x[:1], x[:-1]])
        power = np.abs(np.fft.rfft(x * window, points)[: points // 2]) ** 2
        frames.append(np.log(np.maximum(2.0**-23, filters @ power)))
    return np.array(frames)


@pytest.mark.parametrize("bins", [80, 40])
def test_features_are_the_formula(samples: np.ndarray, bins: int) -> None:
    found = log_mel(samples, FilterbankOptions(bins=bins))
    assert found.shape == (1 + (len(samples) - 400) // 160, bins)
    assert np.abs(found - formula(samples, bins)).max() < 1e-3


def test_features_are_those_of_kaldi_native_fbank(samples: np.ndarray) -> None:
    options = kaldi.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = 80
    computer = kaldi.OnlineFbank(options)
    computer.accept_waveform(16_000, (samples * 32_768).tolist())
    computer.input_finished()
    own = np.array([computer.get_frame(index) for index in range(computer.num_frames_ready)])
    assert np.abs(log_mel(samples, FilterbankOptions()) - own).max() < 1e-5


def test_samples_shorter_than_a_frame_have_no_features() -> None:
    assert log_mel(np.zeros(399, np.float32), FilterbankOptions()).shape == (0, 80)


def test_each_utterance_is_normalised_by_itself() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(3, 2, (50, 4)), generator.normal(-7, 0.5, (20, 4))
    second[:, 3] = 5.0  # a bin that never changes
    found = normalise_utterances(np.concatenate([first, second]).astype(np.float32), np.array([50, 20]))
    for part in (found[:50], found[50:, :3]):
        assert np.abs(part.mean(axis=0)).max() < 1e-4
        assert np.abs(part.std(axis=0) - 1).max() < 1e-3
    assert np.abs(found[50:, 3]).max() < 1e-3
    assert found.dtype == np.float32


def test_global_normalisation() -> None:
    features = np.array([[1.0, 10.0], [3.0, 10.0]], np.float32)
    assert normalise(features, [2.0, 10.0], [1.0, 0.0]).tolist() == [[-1, 0], [1, 0]]
