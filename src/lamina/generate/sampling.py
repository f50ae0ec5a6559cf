"""Greedy decoding and sampling: one token after the other, without keeping alternatives.

Sampling draws the next token from the model's probabilities, changed by a temperature and restricted by top-k and
top-p:

    p'(w) ∝ exp(score(w) / temperature)   over the k most likely tokens (Fan et al. 2018), or over the most likely
                                          tokens with total probability top_p (nucleus, Holtzman et al. 2020)

Each draw uses one number in [0, 1) that is a function of seed, sentence, sample and position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lamina.data.noise import uniforms
from lamina.generate.constraints import constrain, penalty
from lamina.generate.decoder import Decoder, Hypothesis, staying
from lamina.generate.options import GenerateOptions

Choose = Callable[[Tensor, np.ndarray, int], Tensor]
"""Tokens (sentences, rows), from the scores (sentences, rows, vocabulary) of these sentences at this position."""


def best_word(scores: Tensor, sentences: np.ndarray, position: int) -> Tensor:
    """Greedy decoding: the most likely token."""
    return scores.argmax(-1)


def follow_paths(
    decoder: Decoder, limits: np.ndarray, options: GenerateOptions, eos: int, choose: Choose
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The index of each sentence and its hypotheses, as soon as all of them have ended."""
    device, width, room = decoder.device, options.width, int(limits.max()) + 1
    sentences, limit = np.arange(len(limits)), torch.from_numpy(limits).to(device)
    history = torch.full((len(limits), width, room), eos, device=device)
    totals = torch.zeros(len(limits), width, device=device)
    ended = torch.zeros(len(limits), width, dtype=torch.bool, device=device)
    scores = decoder.start().repeat(1, width, 1)
    parents: Tensor | None = torch.zeros(len(limits), width, dtype=torch.int64, device=device)
    for length in range(room):
        constrain(scores, history[..., :length], limit, options, eos)
        tokens = choose(scores, sentences, length).masked_fill(ended, eos)
        gained = scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        totals = totals + gained.masked_fill(ended, 0.0)
        history[..., length] = tokens
        ended = ended | (tokens == eos)
        done = ended.all(1).cpu().numpy()
        if done.any():
            for place in np.flatnonzero(done).tolist():
                rows = zip(totals[place].tolist(), history[place].tolist(), strict=True)
                yield int(sentences[place]), [_hypothesis(path, total, options, eos) for total, path in rows]
            order = staying(done)
            if not len(order):
                return
            kept = torch.from_numpy(order).to(device)
            sentences, limit, history = sentences[order], limit[kept], history[kept]
            totals, ended, tokens = totals[kept], ended[kept], tokens[kept]
            parents = None if parents is None else parents[kept]
            decoder.keep(order)
        scores, parents = decoder.step(parents, tokens), None


def _hypothesis(tokens: list[int], total: float, options: GenerateOptions, eos: int) -> Hypothesis:
    tokens = tokens[: tokens.index(eos)]
    return Hypothesis(tokens, total / penalty(len(tokens) + 1, options), total)


def random_word(options: GenerateOptions, numbers: Sequence[int]) -> Choose:
    """Sampling; `numbers` are the indices of the sentences in the whole input."""
    all_numbers = np.asarray(numbers)

    def choose(scores: Tensor, sentences: np.ndarray, position: int) -> Tensor:
        positions = np.full(len(sentences), position)
        drawn = [
            uniforms(all_numbers[sentences], positions, "sample", options.seed, row) for row in range(scores.shape[1])
        ]
        return draw(scores, torch.from_numpy(np.stack(drawn, 1)).to(scores.device), options)

    return choose


def draw(scores: Tensor, uniform: Tensor, options: GenerateOptions) -> Tensor:
    """The token at which the cumulative probability exceeds `uniform`: (…, vocabulary) and (…) → (…)."""
    vocabulary = scores.shape[-1]
    ordered, words = scores.topk(min(options.top_k or vocabulary, vocabulary))  # most likely first
    probabilities = (ordered.double() / options.temperature).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities  # the total probability of more likely tokens
    inside = before < options.top_p
    kept = probabilities.masked_fill(~inside, 0.0).cumsum(-1)
    passed = kept > (uniform * kept[..., -1]).unsqueeze(-1)
    return words.gather(-1, passed.int().argmax(-1, keepdim=True)).squeeze(-1)
