"""Language pairs, which sets of parallel text are named after.

A module of its own, because both the synthetic languages and the options of `lamina prepare` read such names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguagePair:
    """The two languages that a set of parallel text is named after, such as `de-en`."""

    source: str
    target: str

    @classmethod
    def of_set(cls, name: str) -> LanguagePair | None:
        """The pair that names a set, as `de-en` or in a store `train/de-en`; None for a set with another name."""
        source, _, target = name.rpartition("/")[2].partition("-")
        return cls(source, target) if source and target and "-" not in target else None

    def __iter__(self) -> Iterator[str]:
        return iter((self.source, self.target))
