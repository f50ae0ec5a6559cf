"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One output of one sentence."""

    tokens: list[int]
    """What was generated, without the prefix it started from and without the end."""
    score: float
    """The log-probability divided by the length penalty: what hypotheses compete by."""
    log_probability: float
    """Of the tokens and the end, in nats, given source and prefix, as the model has it: neither what was forbidden nor
    the temperature changes it."""
