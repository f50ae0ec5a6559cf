"""Sequences of n tokens that occur once at most."""

from __future__ import annotations

import torch
from torch import Tensor


def forbid_repeats(scores: Tensor, history: Tensor, size: int) -> None:
    """Set to −∞, in `scores` (…, vocabulary), the words that would repeat `size` tokens of `history` (…, length)."""
    if history.shape[-1] < size:
        return
    windows = history.unfold(-1, size, 1)  # (…, windows, size)
    end = history[..., history.shape[-1] - size + 1 :]  # (…, size - 1)
    repeats = (windows[..., :-1] == end.unsqueeze(-2)).all(-1)  # (…, windows)
    words = windows[..., -1]
    kept = scores.gather(-1, words)
    # A word may end several windows, of which one repeats: the least of its values has to win.
    scores.scatter_reduce_(-1, words, kept.masked_fill(repeats, -torch.inf), "amin")
