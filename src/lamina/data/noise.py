"""Noise on tokens (word dropout and masking), and the random numbers of batches and noise.

Random numbers are a pure function of a purpose, a few words and numbers such as `("examples", seed, epoch)`: the same
purpose gives the same numbers, in any order, on any machine. Only the raw output of Philox is used, which numpy
guarantees not to change; its permutations and distributions may change between versions.

Whether a token is dropped or masked depends on seed, epoch, example and position only: it does not matter how batches
are cut or which process has the example, and a resumed run has the same noise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamina.data.packed import Integers, PackedField
from lamina.errors import UserError

Purpose = str | int


def permutation(count: int, *purpose: Purpose) -> Integers:
    """The integers below `count` in random order."""
    keys = np.random.Philox(key=_key(purpose, 16)).random_raw(count)
    return np.argsort(keys, kind="stable").astype(np.int64)


def uniforms(examples: Integers, positions: Integers, *purpose: Purpose) -> NDArray[np.float64]:
    """A number in [0, 1) for every (example, position), whichever batch or process the token is in."""
    key = np.uint64(_key(purpose, 8))
    mixed = _mix(_mix(examples.astype(np.uint64) + key) + positions.astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _key(purpose: tuple[Purpose, ...], size: int) -> int:
    name = "/".join(map(str, purpose))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:size], "little")


def _mix(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The mixing function of the SplitMix64 generator (Steele, Lea and Flood 2014)."""
    mixed = counters * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def drop_words(
    field: PackedField,
    examples: Integers,
    *,
    probability: float,
    replacement: int,
    seed: int,
    epoch: int,
    spared: tuple[int, ...] = (),
    purpose: str = "word dropout",
) -> PackedField:
    """Replace tokens by `replacement` with the given probability, except those in `spared` (bos, eos, tags).

    `examples` are the indices of the sequences. Source and target need different purposes, or the same positions are
    dropped in both.
    """
    _check(probability, "word dropout")
    chance = uniforms(examples[field.rows], field.positions, purpose, seed, epoch)
    dropped = (chance < probability) & ~np.isin(field.ids, spared)
    return field.with_ids(np.where(dropped, replacement, field.ids))


@dataclass(frozen=True, eq=False)
class MaskedField:
    """Sequences with masked tokens, the positions of these tokens, and their labels."""

    field: PackedField
    chosen: Integers  # (masked,) indices into field.ids
    labels: Integers  # (masked,)


class Masking:
    """The masking of BERT: of the chosen tokens 80 % are masked, 10 % are replaced by a random token, 10 % are kept."""

    def __init__(
        self, *, mask: int, vocabulary_size: int, special: tuple[int, ...], seed: int, probability: float = 0.15
    ) -> None:
        """`special` tokens are neither chosen nor used as replacements."""
        _check(probability, "masking")
        self.mask, self.special, self.seed, self.probability = mask, special, seed, probability
        self._ordinary = np.setdiff1d(np.arange(vocabulary_size), [*special, mask])
        if len(self._ordinary) == 0:
            raise UserError(f"all {vocabulary_size} tokens of the vocabulary are special: there is nothing to mask")

    def __call__(self, field: PackedField, examples: Integers, epoch: int) -> MaskedField:
        """Tokens are chosen independently, so a short batch may have none; `examples` are the indices of the
        sequences."""
        rows, positions = examples[field.rows], field.positions

        def chance(purpose: str) -> NDArray[np.float64]:
            return uniforms(rows, positions, purpose, self.seed, epoch)

        chosen = (chance("masked") < self.probability) & ~np.isin(field.ids, [*self.special, self.mask])
        fate = chance("fate")
        anything = self._ordinary[(chance("replacement") * len(self._ordinary)).astype(np.int64)]
        hidden = np.select([fate < 0.8, fate < 0.9], [np.full_like(field.ids, self.mask), anything], field.ids)
        return MaskedField(
            field.with_ids(np.where(chosen, hidden, field.ids)), np.flatnonzero(chosen), field.ids[chosen]
        )


def _check(probability: float, what: str) -> None:
    if not 0 <= probability <= 1:
        raise UserError(f"the probability of {what} must lie between 0 and 1, not {probability}")
