"""Sampling: a random next word, by the model's probabilities, sharpened by a temperature and cut by top-k and top-p.

    p'(w) ∝ exp(score(w) / temperature)   over the k likeliest words (Fan et al. 2018), or over the likeliest words
                                          whose probabilities add up to top_p (nucleus, Holtzman et al. 2020)

Each draw takes one number in [0, 1) that is a function of seed, sentence, sample and position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lamina.data.noise import uniforms
from lamina.generate.options import GenerateOptions
from lamina.generate.paths import Choose


def random_word(options: GenerateOptions, numbers: Sequence[int]) -> Choose:
    """The rule that draws words; `numbers` are the sentences' numbers in the whole input."""
    all_numbers = np.asarray(numbers)

    def choose(scores: Tensor, sentences: np.ndarray, position: int) -> Tensor:
        positions = np.full(len(sentences), position)
        drawn = [
            uniforms(all_numbers[sentences], positions, "sample", options.seed, row) for row in range(scores.shape[1])
        ]
        return draw(scores, torch.from_numpy(np.stack(drawn, 1)).to(scores.device), options)

    return choose


def draw(scores: Tensor, uniform: Tensor, options: GenerateOptions) -> Tensor:
    """The word at which the cumulative probability passes `uniform`: (…, vocabulary) and (…) → (…)."""
    vocabulary = scores.shape[-1]
    ordered, words = scores.topk(min(options.top_k or vocabulary, vocabulary))  # likeliest first
    probabilities = (ordered.double() / options.temperature).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities  # what likelier words have together
    inside = before < options.top_p
    kept = probabilities.masked_fill(~inside, 0.0).cumsum(-1)
    passed = kept > (uniform * kept[..., -1]).unsqueeze(-1)
    return words.gather(-1, passed.int().argmax(-1, keepdim=True)).squeeze(-1)
