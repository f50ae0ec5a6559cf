"""One key-value cache for incremental decoding: preallocated, written in place, reordered by index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.errors import UserError
from lamina.model.sequences import Lengths, Sequences


class Memory(NamedTuple):
    """Keys and values of the source: computed once per sentence, whatever the number of rows that read it."""

    keys: Tensor  # (sentences, kv_heads, length, head_dim)
    values: Tensor
    mask: Tensor | None  # (sentences, 1, 1, length), True at real tokens

    def choose(self, sentences: Tensor) -> Memory:
        return Memory(self.keys[sentences], self.values[sentences], None if self.mask is None else self.mask[sentences])


class Cache:
    """Keys and values of the tokens decoded so far, and of the source sentences, for every layer.

    A decoding step is `sequences = cache.next(lengths)`, then the model with those sequences and the cache, then
    `cache.advance()`. Rows may have different lengths, and a step may add several tokens (a prompt, a forced prefix).
    """

    def __init__(self, num_layers: int, num_rows: int, capacity: int, device: torch.device | str = "cpu") -> None:
        self.capacity, self.device = capacity, device
        self.held = np.zeros(num_rows, dtype=np.int64)  # tokens per row so far
        self.filled = 0
        self._step: Sequences | None = None
        self._mask: Tensor | None = None
        self._own: list[tuple[Tensor, Tensor] | None] = [None] * num_layers  # (rows, kv_heads, capacity, head_dim)
        self._memory: list[Memory | None] = [None] * num_layers

    def next(self, lengths: Lengths) -> Sequences:
        """The boundaries of the tokens that come next, `lengths[i]` of them in row i."""
        if len(lengths) != len(self.held):
            raise UserError(f"the cache has {len(self.held)} rows, but tokens came for {len(lengths)}")
        step = Sequences(lengths, self.device, start=self.held)
        if step.longest > self.capacity:
            raise UserError(
                f"the cache holds {self.capacity} tokens per row, but {step.longest} are needed; enlarge it"
            )
        self._step, self.filled = step, step.longest
        in_lockstep = step.length == 1 and self.held.min() == self.held.max()
        if in_lockstep:
            self._mask = None
        else:
            own = self.held[:, None] + np.arange(step.length)  # (rows, length): the position of each query
            mask = torch.from_numpy(np.arange(self.filled) <= own[..., None])
            self._mask = mask[:, None].to(self.device)  # (rows, 1, length, filled)
        return step

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Store this step's (tokens, kv_heads, head_dim); return all (rows, kv_heads, filled, head_dim) and a mask."""
        step = self._step
        assert step is not None, "cache.next(lengths) opens a step"
        held = self._own[layer]
        if held is None:
            shape = (len(self.held), keys.shape[1], self.capacity, keys.shape[2])
            held = self._own[layer] = (keys.new_zeros(shape), values.new_zeros(shape))
        held[0][step.rows, :, step.positions] = keys
        held[1][step.rows, :, step.positions] = values
        return held[0][:, :, : self.filled], held[1][:, :, : self.filled], self._mask

    def memory(self, layer: int) -> Memory | None:
        return self._memory[layer]

    def keep_memory(self, layer: int, memory: Memory) -> None:
        self._memory[layer] = memory

    def advance(self) -> None:
        """Close the step: its tokens now count as held."""
        assert self._step is not None, "cache.next(lengths) opens a step"
        self.held = self.held + self._step.counts
        self._step = None

    def reorder(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Row i becomes what row `rows[i]` was; with `sentences`, the source sentences are chosen likewise."""
        self.held = self.held[rows.cpu().numpy()]
        self._own = [held and (held[0][rows], held[1][rows]) for held in self._own]
        if sentences is not None:
            self._memory = [held and held.choose(sentences) for held in self._memory]
