"""Synthetic languages: text for every task, generated from a seed, without files or downloads.

Four languages share one lexicon and differ in sounds, endings and order; `marn` and `tuvo` are source and target by
default. All generators are lazy and give as many examples as asked for, always the same for the same arguments. The
languages do not depend on the seed, and a text belongs to one split only, whatever the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from lamina.data.language_pair import LanguagePair
from lamina.data.synthetic.language import LANGUAGES
from lamina.data.synthetic.lexicon import SPLITS
from lamina.data.synthetic.news import NEWS_YEARS, news_pairs
from lamina.data.synthetic.sentence_pairs import entailment_pairs, paraphrase_pairs
from lamina.data.synthetic.speech import SpokenSentence, spoken_sentences
from lamina.data.synthetic.texts import headline_pairs, running_text, translation_pairs
from lamina.errors import UserError

__all__ = [
    "KINDS",
    "LANGUAGES",
    "NEWS_YEARS",
    "SPLITS",
    "SyntheticKind",
    "entailment_pairs",
    "headline_pairs",
    "known_fields",
    "news_pairs",
    "paraphrase_pairs",
    "running_text",
    "translation_pairs",
]

FieldValues = tuple[str | int | SpokenSentence, ...]


class SyntheticKind(NamedTuple):
    """One kind of generated examples."""

    fields: tuple[str, ...]
    generate: Callable[[str, int, str | None], Iterable[FieldValues]]
    """From a split, a number of examples and a variant (None for the default) to the values of the fields. The variant
    is a language, a language pair, or the noise level of speech."""
    labels: tuple[str, ...] = ()
    """The label set, where one of the fields is a label."""


def _translations(
    generator: Callable[..., Iterator[FieldValues]], **options: Any
) -> Callable[[str, int, str | None], Iterator[FieldValues]]:
    def generate(split: str, count: int, variant: str | None) -> Iterator[FieldValues]:
        pair = LanguagePair("marn", "tuvo") if variant is None else LanguagePair.of_set(variant)
        if pair is None:
            raise UserError(f"embedded translation: {variant!r} is not a language pair; write one such as marn-tuvo")
        return generator(split, count, source=pair.source, target=pair.target, **options)

    return generate


def _in_language(generator: Callable[..., Iterable[Any]]) -> Callable[[str, int, str | None], Iterable[Any]]:
    def generate(split: str, count: int, language: str | None) -> Iterable[Any]:
        return generator(split, count, language=language) if language else generator(split, count)

    return generate


def _texts(*arguments: Any, **options: Any) -> Iterator[FieldValues]:
    return ((text,) for text in running_text(*arguments, **options))


KINDS = {
    "translation": SyntheticKind(("source", "target"), _translations(translation_pairs)),
    "short-translation": SyntheticKind(("source", "target"), _translations(translation_pairs, short=True)),
    "news": SyntheticKind(("source", "target"), _translations(news_pairs)),
    **{
        f"news-{year}": SyntheticKind(("source", "target"), _translations(news_pairs, year=year)) for year in NEWS_YEARS
    },
    "headlines": SyntheticKind(("source", "target"), _in_language(headline_pairs)),
    "text": SyntheticKind(("text",), _in_language(_texts)),
    "paraphrases": SyntheticKind(("first", "second", "label"), _in_language(paraphrase_pairs), ("no", "yes")),
    "speech": SyntheticKind(("audio", "target"), spoken_sentences),
    "entailments": SyntheticKind(("first", "second", "label"), _in_language(entailment_pairs), ("no", "yes")),
}
"""The kinds by name. The file of a task that needs another kind of examples adds it here."""


def known_fields() -> list[str]:
    """The fields of all kinds, which are all fields that tasks read, because there are examples for every task."""
    return list(dict.fromkeys(field for kind in KINDS.values() for field in kind.fields))
