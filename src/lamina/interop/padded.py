"""Padded batches, as other libraries have them: masks instead of lengths, and caches of keys and values.

A forward pass without cache packs the real tokens, so that padding may be on either side. Decoding with a cache
computes on every slot of the (rows, length) grid, because caches of other libraries are padded too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lamina.model.cache import Memory
from lamina.model.sequences import Lengths, Sequences


def pack_real(values: Tensor, mask: Tensor) -> tuple[Tensor, Lengths]:
    """(rows, length, …) → (tokens, …), those where the mask is true, and the number of them in each row."""
    return values[mask], mask.sum(1)


def unpack_real(packed: Tensor, mask: Tensor) -> Tensor:
    """(tokens, …) → (rows, length, …), with zeros where the mask is false."""
    places = mask.flatten().nonzero().squeeze(1)
    grid = packed.new_zeros(mask.numel(), *packed.shape[1:]).index_copy(0, places, packed)
    return grid.view(*mask.shape, *packed.shape[1:])


def real_slots(ids: Tensor, mask: Tensor | None) -> Tensor:
    """The mask of a batch as booleans; without one every slot is real."""
    return torch.ones(ids.shape[:2], dtype=torch.bool, device=ids.device) if mask is None else mask.bool()


class PaddedSequences(Sequences):
    """The interface of `Sequences` for a grid of which every slot is computed.

    mask: (rows, past + length), true at real tokens; the last `length` of them are those of this pass.
    """

    def __init__(self, mask: Tensor, length: int) -> None:
        rows, total = mask.shape
        # Symbolic sizes stay as they are when a program is exported, so no number is computed from them here.
        self.num_sequences, self.length, self.longest = rows, length, total
        self.num_tokens, self.is_full = rows * length, True
        places = (mask.long().cumsum(1) - 1).clamp(min=0)
        self.positions = places[:, total - length :].flatten()  # (rows · length,)
        self.key_mask = mask[:, None, None, :]

    @property
    def counts(self) -> np.ndarray:  # type: ignore[override]
        return np.full(self.num_sequences, self.length)

    def to_grid(self, x: Tensor) -> Tensor:
        return x.reshape(self.num_sequences, self.length, *x.shape[1:])

    def from_grid(self, grid: Tensor) -> Tensor:
        return grid.flatten(0, 1)

    def causal_mask(self) -> Tensor:
        """(rows, 1, length, past + length): each token attends to itself and to the real tokens before it.

        A padding slot attends to itself as well, since attention over nothing is not a number.
        """
        total = self.longest
        keys = torch.arange(total, device=self.positions.device)
        queries = keys[total - self.length :, None]  # (length, 1)
        assert self.key_mask is not None
        return ((keys < queries) & self.key_mask) | (keys == queries)


class LibraryCache:
    """A cache of transformers with the interface that Lamina's attention uses."""

    def __init__(self, cache: Any, step: PaddedSequences, memory_mask: Tensor | None = None) -> None:
        """`memory_mask` is (rows, 1, 1, source length), true at real tokens."""
        self.own = getattr(cache, "self_attention_cache", cache)
        self.cache, self.step, self.memory_mask = cache, step, memory_mask
        self._mask = step.causal_mask()

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        by_head = (self.step.to_grid(each).transpose(1, 2) for each in (keys, values))
        keys, values = self.own.update(*by_head, layer)  # (rows, kv_heads, past + length, head_dim)
        return keys, values, self._mask

    def memory(self, layer: int) -> Memory | None:
        if not self.cache.is_updated.get(layer):
            return None
        held = self.cache.cross_attention_cache.layers[layer]
        return Memory(held.keys, held.values, self.memory_mask)

    def keep_memory(self, layer: int, memory: Memory) -> None:
        self.cache.cross_attention_cache.update(memory.keys, memory.values, layer)
        self.cache.is_updated[layer] = True
