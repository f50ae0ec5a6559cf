"""Is a size what it used to be? A robust running band in log space.

    ln x − median ≤ max(width · 1.4826 · MAD, ln factor)      over the last `window` sizes

Median and median absolute deviation take no notice of single outliers, and 1.4826·MAD is the standard deviation of a
Gaussian. Sizes multiply rather than add, hence the logarithm. The least factor keeps a quiet series, whose deviation is
nearly nothing, from crying wolf. There is no lower edge: weights grow and gradients fade in any training that succeeds.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from pydantic import Field

from lamina.options import Options

GAUSSIAN = 1.4826


class BandOptions(Options):
    window: int = Field(20, ge=4)
    """How many of the last sizes make the band."""
    least: int = Field(5, ge=3)
    """How many there must be before anything can lie outside."""
    width: float = Field(4.0, gt=0)
    """How far its edge is from the median, in robust standard deviations."""
    factor: float = Field(1.5, gt=1)
    """How many times the median a size must be at least to count as outside."""
    share: float = Field(0.2, gt=0, le=1)
    """Of all matrices, how many must lie outside at once for a warning. In 21 small runs that trained well up to a
    seventh did; in two that were driven into divergence it was a third."""


class Band:
    """The band of one series of sizes."""

    def __init__(self, options: BandOptions) -> None:
        self.options = options
        self._logarithms: deque[float] = deque(maxlen=options.window)

    def follow(self, size: float) -> float | None:
        """Take a size in; how many times its usual value it is, if it lies outside the band of those before it."""
        if not math.isfinite(size):
            return size
        if size <= 0:  # nothing happened, as in a skipped step
            return None
        logarithm, before = math.log(size), list(self._logarithms)
        self._logarithms.append(logarithm)
        if len(before) < self.options.least:
            return None
        usual = median(before)
        deviation = GAUSSIAN * median(abs(each - usual) for each in before)
        reach = max(self.options.width * deviation, math.log(self.options.factor))
        return math.exp(logarithm - usual) if logarithm - usual > reach else None
