"""The key-value cache for incremental decoding: preallocated, written in place, reordered by index.

The rows of a sentence (the hypotheses of a search) share one line of slots. A step writes its tokens into the next
slots, and a table says which slots each row attends to:

    slot       0    1    2  3    4  5
    holds      <s>  the  a  cat  b  dog         a prompt of two tokens, then two steps of two rows
    row 0      x    x    x       x
    row 1      x    x    x          x           continued row 0 at the second step

Rows are reordered by reordering that table: keys and values are not moved, and the tokens that rows have in common are
stored once. Masking the slots of other rows costs little, because all rows of a sentence are one matrix product.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from lamina.errors import UserError
from lamina.model.sequences import Lengths, Sequences


class Memory(NamedTuple):
    """Keys and values of the source, computed once per sentence for all of its rows."""

    keys: Tensor  # (sentences, kv_heads, length, head_dim)
    values: Tensor
    mask: Tensor | None  # (sentences, 1, 1, length), 0 at real tokens and else -∞; True and False before it is kept


class KeyValues(Protocol):
    """What attention needs of a cache: Lamina's own, or that of another library."""

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]: ...

    def memory(self, layer: int) -> Memory | None: ...

    def keep_memory(self, layer: int, memory: Memory) -> None: ...


class Cache:
    """Keys and values of the tokens decoded so far, and of the source sentences, for every layer.

    A decoding step is `sequences = cache.next(lengths)`, then the model with those sequences and the cache, then
    `cache.advance()`. Sentences may have different lengths, and a step may add several tokens (a prompt, a forced
    prefix); the rows of one sentence always have the same length.
    """

    def __init__(self, num_layers: int, num_sentences: int, capacity: int, device: torch.device | str = "cpu") -> None:
        """`capacity` is the number of slots of a sentence, one for each token of each of its rows."""
        self.capacity, self.device = capacity, device
        self.held = np.zeros(num_sentences, dtype=np.int64)  # tokens per row so far
        self.width = 1  # rows per sentence
        self.filled = 0  # slots in use
        self._seen: Tensor | None = None  # (sentences, width, capacity); None while every row attends to every slot
        self._step: Sequences | None = None
        self._mask: Tensor | None = None
        self._own: list[tuple[Tensor, Tensor] | None] = [None] * num_layers  # (sentences, kv_heads, capacity, head_dim)
        self._memory: list[Memory | None] = [None] * num_layers

    @property
    def num_sentences(self) -> int:
        return len(self.held)

    def next(self, lengths: Lengths) -> Sequences:
        """Begin a step with `lengths[i]` new tokens in row i; returns their boundaries."""
        rows = self.num_sentences * self.width
        if len(lengths) != rows:
            raise UserError(f"the cache has {rows} rows, but tokens came for {len(lengths)}")
        step = Sequences(lengths, self.device, start=np.repeat(self.held, self.width))
        needed = self.filled + self.width * step.length
        if needed > self.capacity:
            raise UserError(f"the cache holds {self.capacity} tokens per sentence, but {needed} are needed; enlarge it")
        self._step, self._mask = step, self._attended(step, needed)
        return step

    def _attended(self, step: Sequences, needed: int) -> Tensor | None:
        """(sentences, 1, width · length, needed): the slots each token of the step attends to, its own included."""
        length, width, fresh = step.length, self.width, slice(self.filled, needed)
        if self._seen is None and width == 1 and length == 1:
            return None
        if self._seen is None:
            self._seen = torch.ones(self.num_sentences, width, self.capacity, dtype=torch.bool, device=self.device)
        own_row = torch.eye(width, dtype=torch.bool, device=self.device)
        if length == 1:
            self._seen[:, :, fresh] = own_row
            return self._seen[:, None, :, :needed]
        real = torch.from_numpy(np.arange(length) < step.counts[:, None]).to(self.device).view(-1, 1, width, length)
        self._seen[:, :, fresh] = (own_row[..., None] & real).flatten(2)
        mask = self._seen[:, :, None, :needed].repeat(1, 1, length, 1)  # (sentences, width, length, needed)
        earlier = torch.ones(length, length, dtype=torch.bool, device=self.device).tril()
        mask[..., fresh] = (own_row[:, None, :, None] & earlier[None, :, None]).flatten(2)
        return mask.flatten(1, 2).unsqueeze(1)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Store this step's (tokens, kv_heads, head_dim); return all (sentences, kv_heads, slots, head_dim) and a mask.

        The mask is for the queries of a sentence's rows, one row after the other.
        """
        step = self._step
        assert step is not None, "cache.next(lengths) opens a step"
        held = self._own[layer]
        if held is None:
            shape = (self.num_sentences, keys.shape[1], self.capacity, keys.shape[2])
            held = self._own[layer] = (keys.new_empty(shape), values.new_empty(shape))
        needed = self.filled + self.width * step.length
        for store, new in zip(held, (keys, values), strict=True):
            by_sentence = step.to_grid(new).view(self.num_sentences, -1, *new.shape[1:])
            store[:, :, self.filled : needed] = by_sentence.transpose(1, 2)
        if self._mask is not None:
            self._mask = as_addend(self._mask, keys.dtype)  # once for all layers
        return held[0][:, :, :needed], held[1][:, :, :needed], self._mask

    def memory(self, layer: int) -> Memory | None:
        """The keys and values of the source; None before the first step."""
        return self._memory[layer]

    def keep_memory(self, layer: int, memory: Memory) -> None:
        """Store the keys and values of the source."""
        if memory.mask is not None:
            memory = memory._replace(mask=as_addend(memory.mask, memory.keys.dtype))
        self._memory[layer] = memory

    def advance(self) -> None:
        """End the step: its tokens are now in the cache."""
        assert self._step is not None, "cache.next(lengths) opens a step"
        self.held = self.held + self._step.counts[:: self.width]
        self.filled += self.width * self._step.length
        self._step = None

    def reorder(self, parents: Tensor) -> None:
        """Row i of a sentence continues the previous row `parents[sentence, i]`. The number of rows may change."""
        self.width = parents.shape[1]
        if self._seen is not None:
            self._seen = self._seen.gather(1, parents[..., None].expand(-1, -1, self.capacity))

    def keep(self, sentences: np.ndarray) -> None:
        """Keep the given sentences only, in this order; only those whose index changes are copied."""
        count = len(sentences)
        assert count <= self.num_sentences, "sentences can only be removed from a cache"
        places = np.flatnonzero(sentences != np.arange(count))
        to, of = (torch.from_numpy(index).to(self.device) for index in (places, sentences[places]))

        def move(store: Tensor, used: int | None = None) -> Tensor:
            if len(places):
                store[to, :, :used] = store[of, :, :used]
            return store[:count]

        self.held = self.held[sentences]
        self._seen = None if self._seen is None else move(self._seen)
        self._own = [held and (move(held[0], self.filled), move(held[1], self.filled)) for held in self._own]
        self._memory = [
            held and Memory(move(held.keys), move(held.values), None if held.mask is None else move(held.mask))
            for held in self._memory
        ]


def as_addend(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What attention adds to the scores: -∞ where the mask is False. Torch would compute it in every layer."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
