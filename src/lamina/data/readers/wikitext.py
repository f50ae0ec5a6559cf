"""WikiText's `.tokens` files: words separated by spaces, unknown ones already written `<unk>`.

Published perplexities count one end-of-line token for every line, blank ones included (245,569 tokens in the test
set of WikiText-103). Blank lines therefore stay, as examples without words; the task adds the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.example import Example, Notes
from lamina.data.text_files import read_lines


@dataclass(frozen=True)
class WikitextFiles:
    """Files of tokenised lines, yielding the field `text`."""

    files: tuple[str, ...]

    def check(self) -> None:
        for file in self.files:
            next(read_lines(file))

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            for number, line in enumerate(read_lines(file, notes.repaired), start=1):
                yield Example({"text": line.strip()}, file, number)
