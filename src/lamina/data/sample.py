"""A bounded, evenly spread, repeatable sample of a stream whose length nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Texts = tuple[str, ...]


def sample_evenly(stream: Iterable[Texts], characters: int) -> Iterator[str]:
    """At most about `characters` of text: every example, or every 2nd, 4th, 8th … one, the texts of each kept together.

    Whenever too much has been kept, every second example is let go and the step doubles. Between half of the bound
    and the bound is kept of a long stream. Whole examples are kept, since with an even step over single texts the
    sample of a parallel corpus would hold one language only.
    """
    kept: list[Texts] = []
    size, step = 0, 1
    for number, texts in enumerate(stream):
        if number % step:
            continue
        kept.append(texts)
        size += _length(texts)
        while size > characters and len(kept) > 1:
            kept = kept[::2]
            size, step = sum(map(_length, kept)), step * 2
    return (text for texts in kept for text in texts)


def _length(texts: Texts) -> int:
    return sum(map(len, texts))
