"""Perplexity: the exponential of the mean negative log-likelihood, per token and per word."""

from __future__ import annotations

import math


def perplexity(total_nll: float, count: int) -> float:
    """Capped where the number would not fit: a model that has diverged is worse than any number says."""
    return math.exp(min(700.0, total_nll / count)) if count else math.inf
