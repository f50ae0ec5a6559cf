"""Accuracy and F1 of predicted labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]


def accuracy(predicted: Labels, correct: Labels) -> float:
    """In points of 100."""
    return 100 * float((predicted == correct).mean()) if len(correct) else 0.0


def f1(predicted: Labels, correct: Labels, positive: int = 1) -> float:
    """The harmonic mean of precision and recall of one label, in points of 100; 0 where it never occurs."""
    hits = int(((predicted == positive) & (correct == positive)).sum())
    guessed, present = int((predicted == positive).sum()), int((correct == positive).sum())
    return 200 * hits / (guessed + present) if guessed + present else 0.0
