"""Log-mel filterbanks as Kaldi computes them, by kaldi-native-fbank, without dither.

For a frame of 25 ms every 10 ms: subtract the mean, pre-emphasise (x_t − 0.97 x_{t−1}), multiply by the Povey window
(½ − ½ cos(2πt/(n−1)))^0.85, and take the power spectrum P of 512 points. With triangular filters w_b, equally spaced
on the mel scale 1127 ln(1 + f/700) between 20 Hz and half the sample rate,

    feature_b = ln max(ε, Σ_k w_b(k) P(k)),    ε = 2⁻²³

of samples in the range of 16-bit integers.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from lamina.data.speech.recordings import Samples, import_speech
from lamina.options import Options

Features = NDArray[np.float32]  # (frames, bins)

_SCALE = 32768.0


class FilterbankOptions(Options):
    """Options of log-mel filterbanks."""

    bins: int = Field(80, ge=4, le=256)
    """Number of mel filters."""
    sample_rate: int = Field(16_000, ge=1_000)
    """Samples per second; recordings of another rate are converted."""


def log_mel(samples: Samples, options: FilterbankOptions) -> Features:
    """The log-mel features of some samples; no frame if they are shorter than 25 ms."""
    kaldi = import_speech("kaldi_native_fbank")
    settings = kaldi.FbankOptions()
    settings.frame_opts.dither = 0.0
    settings.frame_opts.samp_freq = options.sample_rate
    settings.mel_opts.num_bins = options.bins
    computer = kaldi.OnlineFbank(settings)
    computer.accept_waveform(options.sample_rate, samples * _SCALE)
    computer.input_finished()
    frames = [computer.get_frame(index) for index in range(computer.num_frames_ready)]
    return np.stack(frames) if frames else np.zeros((0, options.bins), np.float32)


Normalisation = Literal["utterance", "global", "none"]


def normalise(features: Features, mean: ArrayLike, deviation: ArrayLike) -> Features:
    """(x − mean) / deviation for every bin; a bin that never changes becomes zero."""
    scale = np.maximum(np.asarray(deviation, np.float32), np.float32(1e-5))
    return ((features - np.asarray(mean, np.float32)) / scale).astype(np.float32, copy=False)


def normalise_utterances(features: Features, lengths: NDArray[np.int64]) -> Features:
    """Each utterance with mean 0 and variance 1 in every bin."""
    starts = np.cumsum(lengths) - lengths
    counts = lengths[:, None]
    wide = features.astype(np.float64)
    mean = np.add.reduceat(wide, starts) / counts
    variance = np.maximum(np.add.reduceat(wide**2, starts) / counts - mean**2, 0)
    mean, deviation = np.repeat(mean, lengths, axis=0), np.repeat(np.sqrt(variance), lengths, axis=0)
    return normalise(features, mean, deviation)
