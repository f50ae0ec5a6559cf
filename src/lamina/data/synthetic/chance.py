"""Random draws that are the same on every machine.

Everything uses `random.Random(seed).random()` and integers only. Other methods of `Random`, `sum` of floats and powers
have changed between versions of Python or differ between platforms.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Draw = Callable[[], float]
"""A generator of numbers in [0, 1)."""

Thing = TypeVar("Thing")


def chance(*purpose: str | int) -> Draw:
    """A new generator for this purpose; the same words and numbers give the same generator."""
    name = "/".join(str(part) for part in purpose)
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")).random


def pick(draw: Draw, stock: Sequence[Thing]) -> Thing:
    """A random element of `stock`; elements that occur several times are drawn more often."""
    return stock[int(draw() * len(stock))]


def zipf_stock(things: Iterable[tuple[Thing, int]], size: int) -> tuple[Thing, ...]:
    """A stock in which the thing of each `(thing, rank)` occurs about `size / (rank + 3)` times, and at least once.

    This is the Zipf–Mandelbrot law; the shift of 3 keeps the first few words from dominating the text.
    """
    return tuple(thing for thing, rank in things for _ in range(max(1, size // (rank + 3))))


def fair_labels(draw: Draw) -> Iterator[int]:
    """An endless sequence of labels 0 and 1, one of each in every two, in random order."""
    while True:
        first = int(draw() < 0.5)
        yield first
        yield 1 - first
