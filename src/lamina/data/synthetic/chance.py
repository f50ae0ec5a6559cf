"""Chance that is the same on every machine.

Everything here rests on `random.Random(seed).random()` and on integers. Other methods of `Random`, `sum` of floats and
powers have changed between versions of Python or differ between platforms; these do not.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Draw = Callable[[], float]
"""A source of numbers in [0, 1)."""

Thing = TypeVar("Thing")


def chance(*purpose: str | int) -> Draw:
    """A fresh source of numbers for this purpose; the same words and numbers give the same source."""
    name = "/".join(str(part) for part in purpose)
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")).random


def pick(draw: Draw, stock: Sequence[Thing]) -> Thing:
    """One of the stock; what occurs in it several times comes up as much more often."""
    return stock[int(draw() * len(stock))]


def zipf_stock(things: Iterable[tuple[Thing, int]], size: int) -> tuple[Thing, ...]:
    """A stock to pick from in which `(thing, rank)` occurs about `size / (rank + 3)` times, and at least once.

    The shift of 3 is Mandelbrot's: it keeps the first few words from being most of the text.
    """
    return tuple(thing for thing, rank in things for _ in range(max(1, size // (rank + 3))))


def fair_labels(draw: Draw) -> Iterator[int]:
    """Ones and zeros without end, one of each in every two."""
    while True:
        first = int(draw() < 0.5)
        yield first
        yield 1 - first
