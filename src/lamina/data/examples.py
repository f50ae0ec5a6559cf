"""Examples, which batches are made from: the protocol, and views on other examples.

`Examples` have numbers and fields that hold sequences of token ids. `Blocks` cut documents into blocks for language
models; `JoinedExamples` number the examples of several sets consecutively, and `TemperatureSampling` determines how
often each set is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamina.data.noise import permutation
from lamina.data.packed import Integers, index_ranges
from lamina.errors import UserError, unknown


class Examples(Protocol):
    """A split of a token store, or anything with the same methods. Sequences have neither bos nor eos."""

    @property
    def fields(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def lengths(self, field: str) -> Integers:
        """The number of tokens of every example."""

    def tokens(self, field: str, index: int) -> NDArray[Any]:
        """The tokens of one example."""

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        """The tokens of some examples, concatenated, and their lengths."""


def example_sizes(examples: Examples, fields: Sequence[str], added: int = 0) -> Integers:
    """The tokens that each example counts for in a batch: those of its longest field, plus `added` for bos, eos or
    tags."""
    return np.max([examples.lengths(field) for field in fields], axis=0).astype(np.int64) + added


FIELDS = ("input", "target", "scored")


class Windows(NamedTuple):
    """Windows over a stream of tokens, as half-open ranges; tokens before `fresh` are context."""

    start: Integers
    fresh: Integers
    stop: Integers


def windows(total: int, length: int, context: int = 0) -> Windows:
    """Windows of at most `length` tokens over a stream of `total` tokens; every token is fresh in exactly one."""
    if not 0 <= context < length:
        raise UserError(f"the context must be shorter than the block of {length} tokens, and not negative: {context}")
    step = length - context
    fresh = np.concatenate([np.arange(min(total, 1)), np.arange(length, total, step)])
    stop = np.minimum(np.concatenate([np.array([length])[: len(fresh)], fresh[1:] + step]), total)
    return Windows(np.maximum(stop - length, 0) if context else fresh, fresh, stop)


class Blocks:
    """Blocks of one field of some documents, as examples for language models.

    Documents follow each other in one stream, each ended by a boundary token; blocks are windows over it. Without
    context, one window begins where the last one ended. With context, a window begins earlier and only its new tokens
    are scored: in evaluation every token is then scored once, and only the first few without history.

        stream    a b c d | e f g h | …          context 0
                  a b c d · c d E F · e f G H    context 2: lower-case tokens are context and not scored again

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
        """Blocks are cut from the stream of all documents or, without `across_documents`, from each document alone."""
        if len(documents) == 0:
            raise UserError("there are no documents to cut into blocks")
        self.documents, self.field, self.boundary = documents, field, boundary
        spans = documents.lengths(field) + 1
        self._ends = np.cumsum(spans)  # the end of each document in the stream, boundary token included
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
        """Tokens of the stream, which begins with a boundary token at position -1."""
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


class JoinedExamples:
    """The examples of several sets, numbered consecutively. All sets must have the fields of the first."""

    def __init__(self, parts: Sequence[Examples]) -> None:
        if not parts:
            raise UserError("there are no sets of examples to join")
        for number, part in enumerate(parts):
            missing = [field for field in parts[0].fields if field not in part.fields]
            if missing:
                raise UserError(f"set {number} of the joined examples has no field {missing[0]!r}, but set 0 has")
        self.parts = tuple(parts)
        self.counts = np.array([len(part) for part in parts], np.int64)
        self._ends = np.cumsum(self.counts)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.parts[0].fields

    def __len__(self) -> int:
        return int(self._ends[-1])

    def part_of(self, indices: Integers) -> Integers:
        """The set that each example comes from."""
        return np.searchsorted(self._ends, indices, side="right")

    def lengths(self, field: str) -> Integers:
        return np.concatenate([part.lengths(field) for part in self.parts])

    def tokens(self, field: str, index: int) -> NDArray[Any]:
        part = int(self.part_of(np.array(index)))
        return self.parts[part].tokens(field, index - int(self._ends[part] - self.counts[part]))

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        """Reads each set once and puts its sequences in the order of `indices`."""
        owners, lengths = self.part_of(indices), np.zeros(len(indices), np.int64)
        gathered: list[tuple[Integers, Integers]] = []
        for number in np.unique(owners):
            places = np.flatnonzero(owners == number)
            local = indices[places] - (self._ends[number] - self.counts[number])
            ids, lengths[places] = self.parts[number].gather(field, local)
            gathered.append((places, ids))
        starts, joined = np.cumsum(lengths) - lengths, np.empty(int(lengths.sum()), np.int64)
        for places, ids in gathered:
            joined[index_ranges(starts[places], lengths[places])] = ids
        return joined, lengths


class TemperatureSampling:
    """The examples that an epoch samples from each of several joined sets: the `draw` of a batch plan.

    A set of n examples is sampled in proportion to n^(1/T). At temperature T = 1 every example is sampled equally
    often; at higher temperatures small sets are sampled more often than by their size. An epoch has as many samples as
    there are examples. Each set is traversed repeatedly, each time in a new order, and the next epoch continues where
    the last one stopped, so that all examples of a set are sampled equally often over time.
    """

    def __init__(self, counts: Sequence[int] | Integers, temperature: float = 1.0, seed: int = 0) -> None:
        self.counts = np.asarray(counts, np.int64)
        if temperature <= 0:
            raise UserError(f"the sampling temperature must be above 0, not {temperature}")
        if len(self.counts) == 0 or self.counts.min() < 1:
            raise UserError("every set to draw from needs at least one example; leave empty sets out")
        self.seed = seed
        self.shares = _apportion(self.counts, temperature)
        """The number of examples of each set in an epoch."""

    def __call__(self, epoch: int) -> Integers:
        firsts = np.cumsum(self.counts) - self.counts
        return np.concatenate([first + self._drawn(part, epoch) for part, first in enumerate(firsts)])

    def _drawn(self, part: int, epoch: int) -> Integers:
        """The samples of one set in an epoch: a part of the endless sequence of passes through the set."""
        count, share = int(self.counts[part]), int(self.shares[part])
        start, stop = epoch * share, (epoch + 1) * share
        passes = range(start // count, -(-stop // count))
        orders = [permutation(count, "pass", self.seed, part, number) for number in passes]
        skipped = start - passes.start * count
        return np.concatenate([*orders, np.zeros(0, np.int64)])[skipped : skipped + share]


def _apportion(counts: Integers, temperature: float) -> Integers:
    """Integers close to total · n^(1/T) / Σ n^(1/T) with sum `total`; the largest remainders are rounded up."""
    weights = (counts / counts.max()) ** (1 / temperature)
    # Rounded, because a last bit that differs between machines could decide between equal remainders.
    ideal = np.round(weights * (counts.sum() / weights.sum()), 6)
    shares = np.floor(ideal).astype(np.int64)
    rest = int(counts.sum() - shares.sum())
    shares[np.argsort(shares - ideal, kind="stable")[:rest]] += 1
    return shares
