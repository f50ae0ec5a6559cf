"""Line-aligned files: line n of one is the translation (or headline) of line n of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from lamina.data.readers.base import EMPTY, Example, Notes, Reader, Request, is_blank
from lamina.data.readers.markup import is_markup, read_segments
from lamina.errors import UserError
from lamina.files.text_lines import count_lines, read_lines


@dataclass(frozen=True)
class ParallelFiles(Reader):
    """Couples of a source and a target file, read one couple after the other."""

    format = "parallel"
    files: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> ParallelFiles:
        count = len(request.sources)
        if count % 2:
            raise UserError(
                f"{request.split}: parallel files come in couples, source then target; {count} given. Name the other."
            )
        return cls(request.sources)

    @property
    def couples(self) -> list[tuple[str, str]]:
        return list(zip(self.files[::2], self.files[1::2], strict=True))

    def check(self) -> None:
        for source, target in self.couples:
            source_count, target_count = _count(source), _count(target)
            if source_count != target_count:
                raise _unequal(source, source_count, target, target_count)

    def read(self, notes: Notes) -> Iterator[Example]:
        for source, target in self.couples:
            yield from _read_couple(source, target, notes)


def _read_couple(source: str, target: str, notes: Notes) -> Iterator[Example]:
    sources, targets = _sentences(source, notes.repaired), _sentences(target, notes.repaired)
    for source_line, target_line in zip_longest(sources, targets):
        if source_line is None or target_line is None:
            # `check` counted before any work, so a file has changed since, or was read without checking.
            raise _unequal(source, _count(source), target, _count(target))
        number, source_text = source_line
        _, target_text = target_line
        if is_blank(source_text) or is_blank(target_text):
            notes.drop(EMPTY, source, number)
        else:
            yield Example({"source": source_text, "target": target_text}, source, number)


def _sentences(path: str, repaired: Counter[str]) -> Iterator[tuple[int, str]]:
    return read_segments(path, repaired) if is_markup(path) else enumerate(read_lines(path, repaired), start=1)


def _count(path: str) -> int:
    return sum(1 for _ in read_segments(path)) if is_markup(path) else count_lines(path)


def _unequal(source: str, source_count: int, target: str, target_count: int) -> UserError:
    return UserError(
        f"{source} has {source_count:,} lines but {target} has {target_count:,}: parallel files need the same number. "
        f"Lines end at \\n only; find the first line that is not a translation of the other and correct it there."
    )
