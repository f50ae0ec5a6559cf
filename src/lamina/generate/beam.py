"""Beam search: at each step, keep the best of all one-token extensions of the open hypotheses.

Of a sentence's 2·beam best extensions, those among the first `beam` that end the sentence are moved to the ended
hypotheses, and the best `beam` of the others stay open. Ended hypotheses are ranked by log P(y | x) / lp(y).

All state is in tensors of (sentences, beam); hypotheses become Python objects only when their sentence is done.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.generate.constraints import constrain, penalty
from lamina.generate.decoder import Decoder, Hypothesis, staying
from lamina.generate.options import GenerateOptions


def search_beams(
    decoder: Decoder, limits: np.ndarray, options: GenerateOptions, eos: int
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The index of each sentence and its hypotheses, best first, as soon as it is done."""
    beams = Beams(limits, options, eos, decoder.device)
    sentences = np.arange(len(limits))
    scores = decoder.start()
    while True:
        parents, tokens = beams.extend(scores)
        done = beams.done()
        if done.any():
            for place in np.flatnonzero(done):
                yield int(sentences[place]), beams.hypotheses(int(place))
            order = staying(done)
            if not len(order):
                return
            sentences = sentences[order]
            beams.keep(order)
            decoder.keep(order)
            kept = torch.from_numpy(order).to(decoder.device)
            parents, tokens = parents[kept], tokens[kept]
        scores = decoder.step(parents, tokens)


class Beams:
    """The open and the ended hypotheses of the sentences of a batch."""

    def __init__(self, limits: np.ndarray, options: GenerateOptions, eos: int, device: torch.device) -> None:
        self.options, self.eos = options, eos
        self.limits = torch.from_numpy(limits).to(device)
        count, beam, room = len(limits), options.beam, int(limits.max())
        self.length = 0  # the number of tokens of every open hypothesis
        self.history = torch.zeros(count, 1, room, dtype=torch.int64, device=device)
        self.totals = torch.zeros(count, 1, device=device)  # log-probabilities of the open ones, best first
        self.ended_scores = torch.full((count, beam), -torch.inf, device=device)  # best first; −∞ where there is none
        self.ended_totals = torch.zeros(count, beam, device=device)
        self.ended_lengths = torch.zeros(count, beam, dtype=torch.int64, device=device)
        self.ended_history = torch.zeros(count, beam, room, dtype=torch.int64, device=device)

    def extend(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Extend the hypotheses by one token; returns the parents and tokens of the best, (sentences, beam) each."""
        totals, parents, tokens = self._candidates(scores)  # (sentences, 2·beam) each, best first
        ends = tokens == self.eos
        self._add_ended(totals.masked_fill(~ends, -torch.inf), parents)
        self.totals, chosen = totals.masked_fill(ends, -torch.inf).topk(self.options.beam)
        parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
        self.history = _rows(self.history, parents)
        if self.length < self.history.shape[-1]:
            self.history[..., self.length] = tokens
        self.length += 1
        return parents, tokens

    def _candidates(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        constrain(scores, self.history[..., : self.length], self.limits, self.options, self.eos)
        wanted = 2 * self.options.beam
        per_row = min(wanted, scores.shape[-1])
        best, words = scores.topk(per_row)  # (sentences, rows, per_row)
        totals = (self.totals.unsqueeze(-1) + best).flatten(1)
        totals, places = totals.topk(min(wanted, totals.shape[1]))
        missing = wanted - totals.shape[1]  # in the first steps of a small vocabulary
        totals = F.pad(totals, (0, missing), value=-torch.inf)
        places = F.pad(places, (0, missing))
        return totals, places // per_row, words.flatten(1).gather(1, places)

    def _add_ended(self, totals: Tensor, parents: Tensor) -> None:
        """Keep the best of those that had ended and those that end now; totals are −∞ where none ends."""
        beam = self.options.beam
        totals, parents = totals[:, :beam], parents[:, :beam]  # an end counts if it is among the first
        scores = totals / penalty(self.length + 1, self.options)
        self.ended_scores, chosen = torch.cat([self.ended_scores, scores], 1).topk(beam)
        self.ended_totals = torch.cat([self.ended_totals, totals], 1).gather(1, chosen)
        lengths = torch.full_like(parents, self.length)
        self.ended_lengths = torch.cat([self.ended_lengths, lengths], 1).gather(1, chosen)
        self.ended_history = _rows(torch.cat([self.ended_history, _rows(self.history, parents)], 1), chosen)

    def done(self) -> np.ndarray:
        """Which sentences are done, by the `stop` option."""
        best_open, worst_ended = self.totals[:, 0], self.ended_scores[:, -1]
        out_of_reach = (self.length > self.limits) | (best_open == -torch.inf)
        if self.options.stop == "full":
            can_improve = worst_ended == -torch.inf
        else:
            can_improve = best_open / self._largest_penalty() > worst_ended
        return (out_of_reach | ~can_improve).cpu().numpy()

    def _largest_penalty(self) -> Tensor | float:
        """The largest length penalty of the best open hypothesis; since log P < 0, it gives the best score."""
        if self.options.stop == "likely":
            return penalty(self.length, self.options)
        soonest = penalty(self.length + 1, self.options)
        return torch.clamp(penalty(self.limits + 1, self.options), min=soonest)

    def hypotheses(self, place: int) -> list[Hypothesis]:
        """The best ended hypotheses of a sentence."""
        parts = (self.ended_scores, self.ended_totals, self.ended_lengths, self.ended_history)
        rows = zip(*(part[place, : self.options.nbest].tolist() for part in parts), strict=True)
        return [
            Hypothesis(tokens[:length], score, total) for score, total, length, tokens in rows if score != -torch.inf
        ]

    def keep(self, sentences: np.ndarray) -> None:
        """Keep the given sentences only, in this order."""
        kept = torch.from_numpy(sentences).to(self.limits.device)
        self.limits, self.totals, self.history = self.limits[kept], self.totals[kept], self.history[kept]
        self.ended_scores, self.ended_totals = self.ended_scores[kept], self.ended_totals[kept]
        self.ended_lengths, self.ended_history = self.ended_lengths[kept], self.ended_history[kept]


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    """The chosen rows (sentences, n) of a table (sentences, rows, length)."""
    return table.gather(1, rows.unsqueeze(-1).expand(-1, -1, table.shape[-1]))
