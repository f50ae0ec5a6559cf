"""Single paths: one word after the other, without looking back. Greedy decoding and sampling differ in the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from lamina.generate.constraints import constrain
from lamina.generate.decoder import Decoder, staying
from lamina.generate.hypothesis import Hypothesis
from lamina.generate.lengths import penalty
from lamina.generate.options import GenerateOptions

Choose = Callable[[Tensor, np.ndarray, int], Tensor]
"""Words (sentences, rows) for the scores (sentences, rows, vocabulary) of these sentences at this position."""


def best_word(scores: Tensor, sentences: np.ndarray, position: int) -> Tensor:
    """Greedy: the likeliest."""
    return scores.argmax(-1)


def follow_paths(
    decoder: Decoder, limits: np.ndarray, options: GenerateOptions, eos: int, choose: Choose
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each sentence's number and its hypotheses, as soon as all of them have ended."""
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
