"""Blocks of running text for language models, seen as examples: what goes in, what should come out, what counts.

Documents follow each other in one stream, each ended by a boundary token; blocks are windows on it. Without context,
one window begins where the last one ended. With context, a window begins earlier, and only its new tokens count: the
way to evaluate, as every token is scored once and none but the first few lacks history.

    stream    a b c d | e f g h | …          context 0
              a b c d · c d E F · e f G H    context 2: small letters are seen but not scored again
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lamina.data.examples import Examples
from lamina.data.packed import Integers
from lamina.errors import UserError, unknown

FIELDS = ("input", "target", "scored")


class Windows(NamedTuple):
    """Windows on a stream of tokens, as half-open ranges; tokens before `fresh` are context."""

    start: Integers
    fresh: Integers
    stop: Integers


def windows(total: int, length: int, context: int = 0) -> Windows:
    """Windows of at most `length` tokens over a stream of `total`, in which every token is fresh exactly once."""
    if not 0 <= context < length:
        raise UserError(f"the context must be shorter than the block of {length} tokens, and not negative: {context}")
    step = length - context
    fresh = np.concatenate([np.arange(min(total, 1)), np.arange(length, total, step)])
    stop = np.minimum(np.concatenate([np.array([length])[: len(fresh)], fresh[1:] + step]), total)
    return Windows(np.maximum(stop - length, 0) if context else fresh, fresh, stop)


class Blocks:
    """Blocks over one field of some documents.

    Fields: `target`, the window's tokens; `input`, the token before each; `scored`, 1 where the target is fresh.
    """

    def __init__(
        self,
        documents: Examples,
        *,
        length: int,
        boundary: int,
        context: int = 0,
        field: str = "text",
        across_documents: bool = True,
    ) -> None:
        """A stream of all documents is cut, or every document for itself where `across_documents` is off."""
        if len(documents) == 0:
            raise UserError("there are no documents to cut into blocks")
        self.documents, self.field, self.boundary = documents, field, boundary
        spans = documents.lengths(field) + 1
        self._ends = np.cumsum(spans)  # of each document in the stream, its boundary token included
        if across_documents:
            self._windows = windows(int(spans.sum()), length, context)
        else:
            apart = [windows(int(span), length, context) for span in spans]
            firsts = np.repeat(self._ends - spans, [len(each.start) for each in apart])
            self._windows = Windows(*(np.concatenate(parts) + firsts for parts in zip(*apart, strict=True)))

    @property
    def fields(self) -> tuple[str, ...]:
        return FIELDS

    def __len__(self) -> int:
        return len(self._windows.start)

    def lengths(self, field: str) -> Integers:
        self._check(field)
        return self._windows.stop - self._windows.start

    def tokens(self, field: str, index: int) -> Integers:
        self._check(field)
        start, fresh, stop = (int(part[index]) for part in self._windows)
        if field == "scored":
            return (np.arange(start, stop) >= fresh).astype(np.int64)
        if field == "target":
            return self._stream(start, stop)
        return self._stream(start - 1, stop - 1)

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        blocks = [self.tokens(field, int(index)) for index in indices]
        lengths = np.array([len(block) for block in blocks], np.int64)
        return np.concatenate([*blocks, np.zeros(0, np.int64)]), lengths

    def _stream(self, start: int, stop: int) -> Integers:
        """Tokens of the stream; before its first comes a boundary."""
        parts = [np.full(1, self.boundary)] if start < 0 else []
        place, document = max(start, 0), int(np.searchsorted(self._ends, max(start, 0), side="right"))
        while place < stop:
            end = int(self._ends[document])
            tokens = self.documents.tokens(self.field, document)
            first = place - (end - 1 - len(tokens))
            parts.append(tokens[first : first + stop - place].astype(np.int64))
            if end <= stop:
                parts.append(np.full(1, self.boundary))
            place, document = end, document + 1
        return np.concatenate([*parts, np.zeros(0, np.int64)])

    def _check(self, field: str) -> None:
        if field not in FIELDS:
            raise unknown("field of a block", field, FIELDS)
