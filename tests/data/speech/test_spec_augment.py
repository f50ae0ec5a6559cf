"""SpecAugment: the masks are stretches of zeros within their limits, and a function of seed, epoch and example."""

from __future__ import annotations

import numpy as np

from lamina.data.speech.spec_augment import SpecAugmentOptions, mask_spans

LENGTHS = np.array([300, 40, 120])
EXAMPLES = np.array([7, 2, 9])


def masked(lengths: np.ndarray, examples: np.ndarray, options: SpecAugmentOptions, epoch: int = 0) -> np.ndarray:
    return mask_spans(np.ones((lengths.sum(), 80), np.float32), lengths, examples, options, seed=1, epoch=epoch)


def width_of_span(hidden: np.ndarray) -> int:
    """The length of the only run of true values."""
    places = np.flatnonzero(hidden)
    assert len(places) == 0 or places[-1] - places[0] + 1 == len(places)
    return len(places)


def test_masks_are_spans_within_their_limits_and_use_the_whole_range() -> None:
    options = SpecAugmentOptions(frequency_width=10, time_width=30, time_fraction=0.5)
    bins, frames = [], []
    for epoch in range(200):
        found = masked(LENGTHS, EXAMPLES, options, epoch)
        for start, length in zip(np.cumsum(LENGTHS) - LENGTHS, LENGTHS, strict=True):
            own = found[start : start + length]
            bins.append(width_of_span((own == 0).all(axis=0)))
            frames.append(width_of_span((own == 0).all(axis=1)) / min(30, length // 2))
    assert set(bins) == set(range(11))
    assert 0 == min(frames) < max(frames) == 1


def test_masks_do_not_depend_on_the_batch_but_on_example_and_epoch() -> None:
    options = SpecAugmentOptions()
    whole = masked(LENGTHS, EXAMPLES, options)
    alone = [masked(LENGTHS[at : at + 1], EXAMPLES[at : at + 1], options) for at in range(3)]
    assert np.array_equal(whole, np.concatenate(alone))
    assert not np.array_equal(whole, masked(LENGTHS, EXAMPLES, options, epoch=1))
    assert not np.array_equal(masked(LENGTHS[:1], np.array([7]), options), masked(LENGTHS[:1], np.array([8]), options))


def test_no_masks_change_nothing() -> None:
    assert (masked(LENGTHS, EXAMPLES, SpecAugmentOptions(frequency_masks=0, time_masks=0)) == 1).all()
