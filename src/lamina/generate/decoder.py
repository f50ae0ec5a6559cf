"""The decoder, which gives every search the log-probabilities of the next tokens, and hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lamina.data.packed import PackedField, to_tensors
from lamina.errors import UserError
from lamina.model.heads import log_softmax
from lamina.model.models import EncoderDecoder, SingleStack


@dataclass(frozen=True)
class Hypothesis:
    """An output for a sentence."""

    tokens: list[int]
    """The generated tokens, without prefix and eos."""
    score: float
    """The log-probability divided by the length penalty, by which hypotheses are ranked."""
    log_probability: float
    """The model's log-probability of tokens and eos given source and prefix, in nats, without constraints or
    temperature."""


Model = EncoderDecoder | SingleStack


class Decoder:
    """A model and its cache, for the open hypotheses (rows) of a batch of sentences; one row each at first."""

    def __init__(
        self, model: Model, sources: Sequence[Sequence[int] | NDArray[Any]], starts: Sequence[Sequence[int]], room: int
    ) -> None:
        """`starts` are the tokens that outputs continue; `room` is the number of tokens that all rows of a sentence
        add."""
        self.device = next(model.parameters()).device
        self.cache = model.new_cache(len(starts), max(map(len, starts)) + room)
        self._starts = PackedField.of(starts)
        self._next: Callable[..., Tensor] = partial(model.step, cache=self.cache, last=True)
        if isinstance(model, EncoderDecoder):
            packed = PackedField.of(sources)
            memory, memory_sequences = model.encode(self._ids(packed), packed.lengths)
            self._next = partial(self._next, memory=memory, memory_sequences=memory_sequences)

    def start(self) -> Tensor:
        """The log-probabilities of the next token after the starts: (sentences, 1, vocabulary)."""
        scores = self._scores(self._ids(self._starts), self._starts.lengths)
        if not scores.isfinite().all():
            raise UserError("the model's scores are not finite: it has diverged; use an earlier checkpoint")
        return scores

    def step(self, parents: Tensor | None, tokens: Tensor) -> Tensor:
        """The log-probabilities after the next tokens (sentences, rows): (sentences, rows, vocabulary).

        Row i of a sentence continues its previous row `parents[sentence, i]`; without parents, row i.
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
        """Keep the given sentences only, in this order."""
        self.cache.keep(sentences)


def staying(ended: np.ndarray) -> np.ndarray:
    """The indices of sentences that have not ended, in an order that moves few of them: the last ones fill the gaps."""
    stay = np.flatnonzero(~ended)
    order = np.arange(len(stay))
    gaps = ended[: len(stay)]
    order[gaps] = stay[stay >= len(stay)]
    return order
