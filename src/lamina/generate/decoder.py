"""What every search works with: the decoder, which gives the log-probability of each next token, and hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from lamina.data.packed import PackedField, to_tensors
from lamina.errors import UserError
from lamina.model.heads import log_softmax
from lamina.model.models import EncoderDecoder, SingleStack


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


Model = EncoderDecoder | SingleStack


class Decoder:
    """The rows of a batch of sentences, one each at first, and the cache of all they have read."""

    def __init__(
        self, model: Model, sources: Sequence[Sequence[int]], starts: Sequence[Sequence[int]], room: int
    ) -> None:
        """`starts` are the tokens that outputs go on from; `room` is for those that all rows of a sentence add."""
        self.device = next(model.parameters()).device
        self.cache = model.new_cache(len(starts), max(map(len, starts)) + room)
        self._starts = PackedField.of(starts)
        self._next: Callable[..., Tensor] = partial(model.step, cache=self.cache, last=True)
        if isinstance(model, EncoderDecoder):
            packed = PackedField.of(sources)
            memory, memory_sequences = model.encode(self._ids(packed), packed.lengths)
            self._next = partial(self._next, memory=memory, memory_sequences=memory_sequences)

    def start(self) -> Tensor:
        """Log-probabilities after the starts: (sentences, 1, vocabulary)."""
        scores = self._scores(self._ids(self._starts), self._starts.lengths)
        if not scores.isfinite().all():
            raise UserError("the model's scores are not finite numbers: it has diverged. Use an earlier checkpoint")
        return scores

    def step(self, parents: Tensor | None, tokens: Tensor) -> Tensor:
        """Log-probabilities after the next tokens (sentences, rows): (sentences, rows, vocabulary).

        Row i of a sentence goes on from what its row `parents[sentence, i]` was; without parents, from its own.
        """
        if parents is not None:
            self.cache.reorder(parents)
        return self._scores(tokens.flatten(), np.ones(tokens.numel(), np.int64))

    def _scores(self, ids: Tensor, lengths: np.ndarray) -> Tensor:
        scores = log_softmax(self._next(ids, lengths))
        return scores.view(self.cache.num_sentences, self.cache.width, -1)

    def _ids(self, packed: PackedField) -> Tensor:
        return to_tensors(packed)[0].to(self.device)

    def keep(self, sentences: np.ndarray) -> None:
        """Sentence i becomes what `sentences[i]` was; the others leave the batch."""
        self.cache.keep(sentences)


def staying(ended: np.ndarray) -> np.ndarray:
    """The sentences that stay, as an order that moves as few as possible: the last ones fill the gaps."""
    stay = np.flatnonzero(~ended)
    order = np.arange(len(stay))
    gaps = ended[: len(stay)]
    order[gaps] = stay[stay >= len(stay)]
    return order
