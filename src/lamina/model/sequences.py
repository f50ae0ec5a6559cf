"""The boundaries of the sequences in a packed batch.

The model computes on the tokens without padding, all in one row. Only attention depends on the boundaries: it copies
the tokens to a (sequences, length) grid and its output back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lamina.errors import UserError

Lengths = Tensor | Sequence[int] | np.ndarray


class Sequences:
    """The boundaries of a packed batch, computed once per batch on the host and used by every layer."""

    def __init__(self, lengths: Lengths, device: torch.device | str = "cpu", start: Lengths | None = None) -> None:
        """`start` is the position of each sequence's first token, which is not 0 if a cache has the tokens before
        it."""
        counts = np.asarray(lengths.cpu() if isinstance(lengths, Tensor) else lengths, dtype=np.int64)
        if counts.size == 0 or counts.min() < 1:
            where = f"sequence {int(counts.argmin())} is empty" if counts.size else "there is no sequence"
            raise UserError(f"every sequence needs at least one token, but {where}; drop empty sequences first")
        # Sizes are plain integers, so that no layer has to synchronise with the device.
        self.counts = counts
        self.num_sequences, self.num_tokens, self.length = len(counts), int(counts.sum()), int(counts.max())
        self.is_full = self.num_tokens == self.num_sequences * self.length
        first = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(self.num_sequences), counts)
        within = np.arange(self.num_tokens) - first[rows]
        offset = 0 if start is None else np.asarray(start)[rows]
        self.positions, self.rows, self.slots = torch.from_numpy(  # each (tokens,)
            np.stack([within + offset, rows, rows * self.length + within])
        ).to(device)
        self.longest = int((within + offset).max()) + 1
        self.first = torch.from_numpy(first).to(device)  # (sequences,): each one's first token
        real = torch.from_numpy(np.arange(self.length) < counts[:, None])  # (sequences, length)
        self.key_mask = None if self.is_full else real[:, None, None, :].to(device)
        """(sequences, 1, 1, length), True for real tokens; None if there is no padding."""
        self._kept: dict[Hashable, Any] = {}

    def keep(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What a layer computes from the boundaries alone, for the layers after it."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def to_grid(self, x: Tensor) -> Tensor:
        """(tokens, …) → (sequences, length, …), with zeros as padding."""
        if not self.is_full:
            x = x.new_zeros(self.num_sequences * self.length, *x.shape[1:]).index_copy(0, self.slots, x)
        return x.view(self.num_sequences, self.length, *x.shape[1:])

    def from_grid(self, grid: Tensor) -> Tensor:
        """(sequences, length, …) → (tokens, …)."""
        flat = grid.flatten(0, 1)
        return flat if self.is_full else flat.index_select(0, self.slots)

    def last_of(self, x: Tensor) -> Tensor:
        """(tokens, …) → (sequences, …): each sequence's last token."""
        return x if self.length == 1 else x[self.first + torch.from_numpy(self.counts - 1).to(x.device)]

    def like(self, given: Tensor, packed: Tensor) -> Tensor:
        """`packed` in the shape of `given`: packed, or padded with zeros."""
        if given.dim() == 1:
            return packed
        grid = self.to_grid(packed)
        missing = given.shape[1] - self.length
        return grid if missing == 0 else torch.cat([grid, grid.new_zeros(len(grid), missing, *grid.shape[2:])], dim=1)

    def num_fitting(self, max_tokens: int) -> int:
        """The number of sequences, from the first, that have at most `max_tokens` together; at least one."""
        return max(1, int((self.counts.cumsum() <= max_tokens).sum()))

    def first_of(self, packed: Tensor, count: int) -> tuple[Tensor, Sequences]:
        """The first `count` sequences and their tokens."""
        chosen = Sequences(self.counts[:count], packed.device)
        return packed[: chosen.num_tokens], chosen


def pack(ids: Tensor, lengths: Lengths | None, padding_index: int) -> tuple[Tensor, Sequences]:
    """Packed token ids and their boundaries, from packed or padded ones.

    `ids` is (tokens,) with `lengths`, or (sequences, length) with `lengths` or with trailing padding.
    """
    if ids.is_floating_point():
        kind = str(ids.dtype).removeprefix("torch.")
        raise UserError(f"token ids must be integers, not {kind}; vectors go into model.stack, or into lamina.Stack")
    if ids.dim() == 1:
        if lengths is None:
            raise UserError("packed token ids (one dimension) need `lengths`, the number of tokens of each sequence")
        sequences = Sequences(lengths, ids.device)
        if sequences.num_tokens != len(ids):
            raise UserError(f"the lengths add up to {sequences.num_tokens} tokens, but there are {len(ids)}")
        return ids, sequences
    if ids.dim() != 2:
        raise UserError(f"token ids must have 1 (packed) or 2 (padded) dimensions, not {ids.dim()}")
    sequences = Sequences(trailing_lengths(ids, padding_index) if lengths is None else lengths, ids.device)
    if sequences.num_sequences != len(ids) or sequences.length > ids.shape[1]:
        given = f"{sequences.num_sequences} lengths up to {sequences.length}"
        raise UserError(f"{given} do not fit token ids of shape {tuple(ids.shape)}")
    return sequences.from_grid(ids[:, : sequences.length]), sequences


def trailing_lengths(ids: Tensor, padding_index: int) -> Lengths:
    """The lengths of sequences with padding at the end."""
    if ids.is_meta:
        return [ids.shape[1]] * len(ids)
    is_token = ids != padding_index
    lengths = is_token.sum(1)
    if not torch.equal(is_token, torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]):
        raise UserError("padding must be at the end of a sequence; otherwise pass packed ids with their lengths")
    return lengths
