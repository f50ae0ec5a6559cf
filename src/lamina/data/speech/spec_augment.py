"""SpecAugment (Park et al. 2019) without time warping: stretches of bins and of frames are set to the mean, zero.

    policy   frequency masks   widest   time masks   longest
    lb       1                 27       1            100
    ld       2                 27       2            100

A mask's width is uniform between 0 and the widest, and its place is uniform. A time mask covers at most a fraction of
the utterance. Masks are a function of seed, epoch and example, so they do not depend on the batch or on the process.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lamina.data.noise import uniforms
from lamina.data.speech.filterbank import Features
from lamina.options import Options


class SpecAugmentOptions(Options):
    """The masks of SpecAugment; the defaults are the policy LB."""

    frequency_masks: int = Field(1, ge=0)
    """Number of masks over bins."""
    frequency_width: int = Field(27, ge=0)
    """Number of bins of the widest mask."""
    time_masks: int = Field(1, ge=0)
    """Number of masks over frames."""
    time_width: int = Field(100, ge=0)
    """Number of frames of the longest mask."""
    time_fraction: float = Field(1.0, ge=0, le=1)
    """The largest fraction of an utterance that one time mask covers."""


def mask_spans(
    features: Features,
    lengths: NDArray[np.int64],
    examples: NDArray[np.int64],
    options: SpecAugmentOptions,
    *,
    seed: int,
    epoch: int,
) -> Features:
    """The packed features of some utterances with masks set to zero; `examples` are the indices of the utterances."""
    masked = features.copy()
    starts = np.cumsum(lengths) - lengths
    total = np.full_like(lengths, features.shape[1])
    for number in range(options.frequency_masks):
        widest = np.minimum(options.frequency_width, total)
        for at, low, high in _spans(examples, total, widest, "frequency", number, seed, epoch):
            masked[starts[at] : starts[at] + lengths[at], low:high] = 0
    for number in range(options.time_masks):
        widest = np.minimum(options.time_width, (lengths * options.time_fraction).astype(np.int64))
        for at, low, high in _spans(examples, lengths, widest, "time", number, seed, epoch):
            masked[starts[at] + low : starts[at] + high] = 0
    return masked


def _spans(
    examples: NDArray[np.int64],
    total: NDArray[np.int64],
    widest: NDArray[np.int64],
    axis: str,
    number: int,
    seed: int,
    epoch: int,
) -> list[tuple[int, int, int]]:
    """For each example its row and the half-open span of a mask: width uniform in 0 … widest, start uniform."""
    purpose = ("spec-augment", axis, number, seed, epoch)
    widths = (uniforms(examples, np.zeros_like(examples), *purpose) * (widest + 1)).astype(np.int64)
    first = (uniforms(examples, np.ones_like(examples), *purpose) * (total - widths + 1)).astype(np.int64)
    return list(zip(range(len(examples)), first.tolist(), (first + widths).tolist(), strict=True))
