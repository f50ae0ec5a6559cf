"""Which outputs a search may produce (length, repeated n-grams), and the length penalty.

power   lp(y) = |y|^a                   fairseq; Xiong et al. 2020 with a = 1.2
wu      lp(y) = ((5 + |y|) / 6)^a       Wu et al. 2016, equation 14; Vaswani et al. 2017 with a = 0.6
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

from lamina.generate.options import GenerateOptions
from lamina.model.options import ModelOptions


def constrain(scores: Tensor, history: Tensor, limits: Tensor, options: GenerateOptions, eos: int) -> None:
    """Set the scores of forbidden tokens to −∞; at least one token, or the end, is always allowed.

    scores (sentences, rows, vocabulary) are those after history (sentences, rows, length); limits (sentences,) are the
    lengths at which an output must end.
    """
    length = history.shape[-1]
    end = scores[..., eos].clone()  # (sentences, rows)
    if options.no_repeat_ngram:
        forbid_repeats(scores, history, options.no_repeat_ngram)
    if length < options.min_length:
        scores[..., eos] = -torch.inf
        if options.no_repeat_ngram:  # a row with no other token left may end early
            stuck = (scores == -torch.inf).all(-1)
            scores[..., eos] = end.masked_fill(~stuck, -torch.inf)
    at_limit = limits == length
    if at_limit.any():
        scores.masked_fill_(at_limit[:, None, None], -torch.inf)
        scores[..., eos] = torch.where(at_limit[:, None], end, scores[..., eos])


def forbid_repeats(scores: Tensor, history: Tensor, size: int) -> None:
    """Set to −∞, in `scores` (…, vocabulary), the words that would repeat `size` tokens of `history` (…, length)."""
    if history.shape[-1] < size:
        return
    windows = history.unfold(-1, size, 1)  # (…, windows, size)
    end = history[..., history.shape[-1] - size + 1 :]  # (…, size - 1)
    repeats = (windows[..., :-1] == end.unsqueeze(-2)).all(-1)  # (…, windows)
    words = windows[..., -1]
    kept = scores.gather(-1, words)
    # A token may be the last of several windows of which only one is repeated, hence the minimum.
    scores.scatter_reduce_(-1, words, kept.masked_fill(repeats, -torch.inf), "amin")


Length = TypeVar("Length", float, torch.Tensor)


def penalty(length: Length, options: GenerateOptions) -> Length:
    """lp(y) for a hypothesis of `length` tokens, eos included."""
    base = length if options.length_penalty_kind == "power" else (5 + length) / 6
    return base**options.length_penalty


def longest(source_length: int, start_length: int, options: GenerateOptions, model: ModelOptions) -> int:
    """The largest number of tokens of an output, given the lengths of its source and of the tokens it starts from."""
    wanted = options.max_length
    if wanted is None:
        by_source = math.ceil(source_length * options.length_factor) + options.length_margin
        wanted = max(1, options.min_length, by_source)
    # The last token of an output is never an input, so it needs no position.
    return wanted if model.positions != "learned" else min(wanted, model.max_length - start_length)


def longest_source(options: GenerateOptions, model: ModelOptions, taken: int = 0) -> int:
    """The largest number of tokens of a source, if `taken` of the model's positions are used otherwise."""
    return options.max_source if model.positions != "learned" else min(options.max_source, model.max_length - taken)
