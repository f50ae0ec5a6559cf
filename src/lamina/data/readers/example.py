"""What readers yield, and the notes they take of everything that did not become an example."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

EMPTY = "empty"


class Example(NamedTuple):
    """One example and where it was read, so that later complaints can name file and line."""

    fields: dict[str, str | int]
    file: str
    line: int


class Notes:
    """Counts of what was kept, repaired and dropped, and the dropped line numbers (eight bytes each)."""

    def __init__(self) -> None:
        self.repaired: Counter[str] = Counter()
        self._dropped: dict[str, dict[str, array[int]]] = {}

    def drop(self, reason: str, file: str, line: int) -> None:
        self._dropped.setdefault(reason, {}).setdefault(file, array("q")).append(line)

    def dropped(self) -> dict[str, int]:
        """How many examples were dropped, by reason."""
        return {reason: sum(map(len, files.values())) for reason, files in self._dropped.items()}

    def dropped_lines(self) -> dict[str, dict[str, list[int]]]:
        """The line numbers that were dropped, by reason and file."""
        return {reason: {file: list(lines) for file, lines in files.items()} for reason, files in self._dropped.items()}


def is_blank(text: str) -> bool:
    """Empty for our purposes: nothing, or white space only."""
    return not text or text.isspace()
