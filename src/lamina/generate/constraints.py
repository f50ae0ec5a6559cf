"""What an output must not be: too short, too long, repetitive."""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.generate.ngrams import forbid_repeats
from lamina.generate.options import GenerateOptions


def constrain(scores: Tensor, history: Tensor, limits: Tensor, options: GenerateOptions, eos: int) -> None:
    """Set to −∞ what may not follow; there is always a word, or the end, that may.

    scores (sentences, rows, vocabulary) come after history (sentences, rows, length); limits (sentences,) are the
    lengths at which an output has to end.
    """
    length = history.shape[-1]
    end = scores[..., eos].clone()  # (sentences, rows)
    if options.no_repeat_ngram:
        forbid_repeats(scores, history, options.no_repeat_ngram)
    if length < options.min_length:
        scores[..., eos] = -torch.inf
        if options.no_repeat_ngram:  # a row to which nothing is left may end before its time
            stuck = (scores == -torch.inf).all(-1)
            scores[..., eos] = end.masked_fill(~stuck, -torch.inf)
    at_limit = limits == length
    if at_limit.any():
        scores.masked_fill_(at_limit[:, None, None], -torch.inf)
        scores[..., eos] = torch.where(at_limit[:, None], end, scores[..., eos])
