"""A statistic of the medians of repeated measurements, with its bootstrap interval.

A round measures everything once, one item directly after the other, so that a slower machine affects all of them. Whole
rounds are resampled with replacement, so that the interval accounts for the correlation within a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")
Numbers = NDArray[np.float64]

ENOUGH = 30  # rounds, below which an interval is too wide and too uncertain itself to quote
RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def reaches(self, bound: float) -> bool:
        """Whether the interval reaches down to the bound."""
        return self.low <= bound

    def __str__(self) -> str:
        return f"{self.value:.3f}  ({self.low:.3f} – {self.high:.3f})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(
    rounds: Sequence[Sequence[float]] | Numbers,
    statistic: Callable[[Numbers], Numbers],
    centre: Callable[..., Numbers] = np.median,
) -> Estimate:
    """The statistic of the columns' centres. `rounds` is (rounds, columns); a statistic maps (…, columns) to (…)."""
    measured = np.asarray(rounds, np.float64)
    drawn = np.random.default_rng(0).integers(len(measured), size=(RESAMPLES, len(measured)))
    low, high = np.percentile(statistic(centre(measured[drawn], axis=1)), [2.5, 97.5])
    return Estimate(float(statistic(centre(measured, axis=0))), float(low), float(high))


def ratio_of_medians(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The ratio of the first of each pair to the second."""
    return estimate(pairs, lambda medians: medians[..., 0] / medians[..., 1])


def counted(items: Sequence[Item], what: str) -> Iterable[Item]:
    """The items, with a bar that is drawn once a second only, so as not to disturb what is measured."""
    return track(items, what, console=Console(stderr=True), transient=True, refresh_per_second=1)


def rounds_until(rounds: int, until: float) -> Iterator[int]:
    """The numbers of the rounds; none but the first begins that would end after `until` on the monotonic clock, if it
    takes as long as the longest before it."""
    longest = 0.0
    for number in counted(range(rounds), "rounds"):
        began = time.monotonic()
        if longest and began + longest > until:
            return
        yield number
        longest = max(longest, time.monotonic() - began)
