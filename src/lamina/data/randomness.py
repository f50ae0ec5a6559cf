"""Random numbers that are functions: the same purpose gives the same numbers, in any order, on any machine.

A purpose is a few words and numbers, such as `("order", seed, epoch)`. Only the raw output of Philox is used, which
numpy promises to keep; its permutations and distributions may change between versions.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from lamina.data.packed import Integers

Purpose = str | int


def permutation(count: int, *purpose: Purpose) -> Integers:
    """The numbers below `count` in a random order."""
    keys = np.random.Philox(key=_key(purpose, 16)).random_raw(count)
    return np.argsort(keys, kind="stable").astype(np.int64)


def uniforms(examples: Integers, positions: Integers, *purpose: Purpose) -> NDArray[np.float64]:
    """A number in [0, 1) for every (example, position): no matter which batch or process the token comes to."""
    key = np.uint64(_key(purpose, 8))
    mixed = _mix(_mix(examples.astype(np.uint64) + key) + positions.astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _key(purpose: tuple[Purpose, ...], size: int) -> int:
    name = "/".join(map(str, purpose))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:size], "little")


def _mix(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The step of the SplitMix64 generator (Steele, Lea and Flood 2014): neighbours end up far apart."""
    mixed = counters * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
