"""Text in Lamina's synthetic languages, which is generated rather than read.

A set is written `kind:count`, or `kind/language:count`: `translation:20000`, `translation/tuvo-marn:500`,
`short-translation:20000`, `news-2014:100`, `headlines:5000`, `text:2000`, `paraphrases:4000`, `entailments:4000`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lamina.data import synthetic
from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.errors import UserError, unknown


class EmbeddedSet(NamedTuple):
    """A number of examples of one kind in one language."""

    kind: str
    language: str | None
    amount: int

    def __str__(self) -> str:
        return f"{self.kind}{f'/{self.language}' if self.language else ''}:{self.amount}"

    @property
    def fields(self) -> tuple[str, ...]:
        return synthetic.KINDS[self.kind].fields

    def generate(self, split: str) -> Iterator[synthetic.FieldValues]:
        return iter(synthetic.KINDS[self.kind].generate(split, self.amount, self.language))


@dataclass(frozen=True)
class EmbeddedSets(Reader):
    """Generated sets, one after the other."""

    format = "embedded"
    reads_files = False
    sets: tuple[EmbeddedSet, ...]
    split: str
    files: tuple[str, ...] = field(default=(), init=False)

    @classmethod
    def open(cls, request: Request) -> EmbeddedSets:
        return cls(tuple(map(_parse, request.sources)), request.split)

    @property
    def label_names(self) -> tuple[str, ...]:
        return next((labels for chosen in self.sets if (labels := synthetic.KINDS[chosen.kind].labels)), ())

    def check(self) -> None:
        for chosen in self.sets:
            next(chosen._replace(amount=1).generate(self.split))

    def read(self, notes: Notes) -> Iterator[Example]:
        for chosen in self.sets:
            for number, values in enumerate(chosen.generate(self.split), start=1):
                yield Example(dict(zip(chosen.fields, values, strict=True)), str(chosen), number)


def _parse(text: str) -> EmbeddedSet:
    found = re.fullmatch(r"([a-z][a-z0-9-]*)(?:/([a-z-]+))?:([1-9]\d*)", text)
    if found is None:
        raise UserError(f"embedded set {text!r}: write kind:count or kind/language:count, such as translation:20000.")
    kind, language, count = found.groups()
    if kind not in synthetic.KINDS:
        raise unknown("kind of embedded text", kind, synthetic.KINDS)
    return EmbeddedSet(kind, language, int(count))
