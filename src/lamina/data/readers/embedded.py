"""The languages made for Lamina, as a source like any other: nothing is read from disk.

A set is written `kind:count`, or `kind/language:count`: `translation:20000`, `translation/tuvo-marn:500`,
`short-translation:20000`, `headlines:5000`, `text:2000`, `paraphrases:4000`, `entailments:4000`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lamina.data import synthetic
from lamina.data.readers.example import Example, Notes
from lamina.errors import UserError, unknown

FIELDS = {
    "translation": ("source", "target"),
    "short-translation": ("source", "target"),
    "headlines": ("source", "target"),
    "text": ("text",),
    "paraphrases": ("first", "second", "label"),
    "entailments": ("first", "second", "label"),
}


class EmbeddedSet(NamedTuple):
    kind: str
    language: str | None
    amount: int

    def __str__(self) -> str:
        return f"{self.kind}{f'/{self.language}' if self.language else ''}:{self.amount}"


@dataclass(frozen=True)
class EmbeddedSets:
    sets: tuple[EmbeddedSet, ...]
    split: str

    @classmethod
    def parse(cls, words: tuple[str, ...], split: str) -> EmbeddedSets:
        return cls(tuple(_parse(word) for word in words), split)

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    @property
    def label_names(self) -> tuple[str, ...]:
        has_labels = any("label" in FIELDS[chosen.kind] for chosen in self.sets)
        return ("no", "yes") if has_labels else ()

    def check(self) -> None:
        for chosen in self.sets:
            next(_generate(chosen._replace(amount=1), self.split))

    def read(self, notes: Notes) -> Iterator[Example]:
        for chosen in self.sets:
            fields = FIELDS[chosen.kind]
            for number, values in enumerate(_generate(chosen, self.split), start=1):
                yield Example(dict(zip(fields, values, strict=True)), str(chosen), number)


def _parse(word: str) -> EmbeddedSet:
    found = re.fullmatch(r"([a-z-]+)(?:/([a-z-]+))?:([1-9]\d*)", word)
    if found is None:
        raise UserError(f"embedded set {word!r}: write kind:count or kind/language:count, such as translation:20000.")
    kind, language, count = found.groups()
    if kind not in FIELDS:
        raise unknown("kind of embedded text", kind, FIELDS)
    return EmbeddedSet(kind, language, int(count))


def _generate(chosen: EmbeddedSet, split: str) -> Iterator[tuple[Any, ...]]:
    if chosen.kind in ("translation", "short-translation"):
        source, _, target = (chosen.language or "marn-tuvo").partition("-")
        short = chosen.kind == "short-translation"
        return iter(synthetic.translation_pairs(split, chosen.amount, source=source, target=target, short=short))
    language: dict[str, Any] = {"language": chosen.language} if chosen.language else {}
    if chosen.kind == "text":
        return ((text,) for text in synthetic.running_text(split, chosen.amount, **language))
    generators: dict[str, Any] = {
        "headlines": synthetic.headline_pairs,
        "paraphrases": synthetic.paraphrase_pairs,
        "entailments": synthetic.entailment_pairs,
    }
    return iter(generators[chosen.kind](split, chosen.amount, **language))
