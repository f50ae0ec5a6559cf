"""WikiText's `.tokens` files: words separated by spaces, unknown ones already written `<unk>`.

Published perplexities count one end-of-line token for every line, blank ones included (245,569 tokens in the test
set of WikiText-103). Blank lines are therefore kept, as examples without words; the task adds the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class WikitextFiles(Reader):
    """Files of tokenised lines, yielding the field `text`."""

    format = "wikitext"
    keeps_empty = True
    files: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> WikitextFiles:
        return cls(request.sources)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            for number, line in enumerate(read_lines(file, notes.repaired), start=1):
                yield Example({"text": line.strip()}, file, number)
