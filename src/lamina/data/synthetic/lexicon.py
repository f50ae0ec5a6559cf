"""The words that all embedded languages share, as meanings: kind, frequency, the words they combine with, and splits.

Words come in families of one or two. Two are either *synonyms*, which may replace each other, or *homographs*: in one
of the languages they are spelled alike, and only the context disambiguates them (a noun by the side of its verb, a verb
by whether its object is animate, a preposition by whether its noun is).

The split of a text is determined by its words, so that splits cannot overlap, whatever their seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from lamina.data.synthetic.chance import chance, zipf_stock
from lamina.data.synthetic.language import LANGUAGES
from lamina.errors import unknown

TOPICS = 12
NOUN_FAMILIES, VERB_FAMILIES, ADJECTIVE_FAMILIES, ADVERB_FAMILIES, NAMES = 210, 80, 48, 24, 36
NOUN_PREPOSITIONS, PLACE_PREPOSITIONS = 4, 6

PATTERN = ("single", "synonyms", "single", "homographs", "single")
"""The types of the families of nouns and verbs, in turn; adjectives and adverbs have no homographs."""


class Frame(NamedTuple):
    """The arguments of a verb. `object` is None (no object), True (animate) or False (inanimate)."""

    animate_subject: bool = True
    object: bool | None = None
    recipient: bool = False
    content: bool = False


# The frames of verb families, in turn. Those at 3 and 8 are homographs by PATTERN, so they must have an object.
FRAMES = (
    Frame(object=False),
    Frame(object=True),
    Frame(),
    Frame(object=False),
    Frame(object=False, recipient=True),
    Frame(animate_subject=False),
    Frame(object=True),
    Frame(content=True),
    Frame(object=True),
    Frame(animate_subject=False, object=True),
)


@dataclass(frozen=True)
class Word:
    """One meaning of a word. The members of a family have the same gender in every language."""

    kind: str
    family: int
    id: int = 0
    root: int = 0
    """The id of the first in the family."""
    rank: int = 0
    """The number of more frequent words of the same kind."""
    synonym: int | None = None
    homograph_in: str | None = None
    """The language in which this word is spelled like the first of its family."""
    animate: bool = False
    side: int | None = None
    """Verbs and nouns have one of two sides and combine with words of the same side; None combines with both."""
    frame: Frame = Frame()

    @property
    def topic(self) -> int:
        return self.family % TOPICS


class Lexicon:
    """All words by id, and their features as tables."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self._add_nouns()
        self._add_verbs()
        self._add_plain("adjective", ADJECTIVE_FAMILIES)
        self._add_plain("adverb", ADVERB_FAMILIES)
        self.noun_prepositions = self._add_prepositions(NOUN_PREPOSITIONS)
        self.place_prepositions = self._add_prepositions(PLACE_PREPOSITIONS)
        self.root = tuple(word.root for word in self.words)
        self.animate = tuple(word.animate for word in self.words)
        self.proper = tuple(word.kind == "name" for word in self.words)
        self.side = tuple(word.side or 0 for word in self.words)
        self.frame = tuple(word.frame for word in self.words)

    def of_kind(self, kind: str) -> list[Word]:
        return [word for word in self.words if word.kind == kind]

    def _add(self, *family: Word) -> None:
        root, rank = len(self.words), len(self.of_kind(family[0].kind))
        for place, word in enumerate(family):
            self.words.append(replace(word, id=root + place, root=root, rank=rank + place))

    def _add_synonyms(self, word: Word) -> None:
        here = len(self.words)
        self._add(replace(word, synonym=here + 1), replace(word, synonym=here))

    def _add_homographs(self, first: Word, second: Word, pair: int) -> None:
        """Pairs are homographs in one language each, in turn."""
        self._add(first, replace(second, homograph_in=list(LANGUAGES)[pair % len(LANGUAGES)]))

    def _add_nouns(self) -> None:
        draw = chance("nouns")
        for family in range(NOUN_FAMILIES):
            noun = Word("noun", family, animate=draw() < 0.42)
            match PATTERN[family % len(PATTERN)]:
                case "single":
                    self._add(noun)
                case "synonyms":
                    self._add_synonyms(noun)
                case _:
                    self._add_homographs(replace(noun, side=0), replace(noun, side=1), family // len(PATTERN))
        for name in range(NAMES):
            self._add(Word("name", NOUN_FAMILIES + name, animate=True))

    def _add_verbs(self) -> None:
        draw = chance("verbs")
        for family in range(VERB_FAMILIES):
            verb = Word("verb", family, side=int(draw() < 0.5), frame=FRAMES[family % len(FRAMES)])
            match PATTERN[family % len(PATTERN)]:
                case "single":
                    self._add(verb)
                case "synonyms":
                    self._add_synonyms(verb)
                case _:
                    frame = verb.frame._replace(object=not verb.frame.object)
                    self._add_homographs(verb, replace(verb, frame=frame), family // len(PATTERN))

    def _add_plain(self, kind: str, families: int) -> None:
        for family in range(families):
            paired = PATTERN[family % len(PATTERN)] == "synonyms"
            (self._add_synonyms if paired else self._add)(Word(kind, family))

    def _add_prepositions(self, count: int) -> tuple[tuple[int, int], ...]:
        """Each is two words, with inanimate and with animate nouns, which are homographs in one language."""
        first = len(self.words)
        for pair in range(count):
            preposition = Word("preposition", first + pair)
            self._add_homographs(preposition, replace(preposition, animate=True), pair)
        return tuple((first + 2 * pair, first + 2 * pair + 1) for pair in range(count))


class Stocks(NamedTuple):
    """The words to draw from; frequent words occur in them several times."""

    nouns: tuple[tuple[tuple[int, ...], ...], ...]
    """The nouns by side, then by animacy."""
    names: tuple[int, ...]
    verbs: tuple[int, ...]
    verbs_of_subject: tuple[tuple[int, ...], ...]
    """The verbs by animacy of the subject."""
    verbs_of_object: tuple[tuple[int, ...], ...]
    """The verbs by animacy of the object; their subjects are animate."""
    adjectives: tuple[int, ...]
    adverbs: tuple[int, ...]


@cache
def lexicon() -> Lexicon:
    """The one lexicon."""
    return Lexicon()


@cache
def stocks(topic: int | None = None, commonest: int | None = None) -> Stocks:
    """The words to draw from in a text on this topic, or on none; `commonest` is the number of words of each kind."""

    def stock(words: Iterable[Word]) -> tuple[int, ...]:
        """Words of the topic have a tenth of their rank, so that every topic has its own frequent words."""
        known = (word for word in words if commonest is None or word.rank < commonest)
        ranked = [(word.id, word.rank // 10 if word.topic == topic else word.rank) for word in known]
        return zipf_stock(ranked, 10 * len(ranked))

    nouns, verbs = lexicon().of_kind("noun"), lexicon().of_kind("verb")
    return Stocks(
        nouns=tuple(
            tuple(
                stock(noun for noun in nouns if noun.side in (None, side) and noun.animate is animate)
                for animate in (False, True)
            )
            for side in (0, 1)
        ),
        names=stock(lexicon().of_kind("name")),
        verbs=stock(verbs),
        verbs_of_subject=tuple(
            stock(verb for verb in verbs if verb.frame.animate_subject is animate) for animate in (False, True)
        ),
        verbs_of_object=tuple(
            stock(verb for verb in verbs if verb.frame.animate_subject and verb.frame.object is animate)
            for animate in (False, True)
        ),
        adjectives=stock(lexicon().of_kind("adjective")),
        adverbs=stock(lexicon().of_kind("adverb")),
    )


SPLITS = ("train", "valid", "test")


def check_split(split: str) -> None:
    """Raise if there is no such split."""
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)


def split_of(words: Iterable[int]) -> str:
    """The split of every text with these content words.

    Order, inflection and the choice of synonyms do not matter, so texts of different splits differ in at least one
    word, in every language. One text in sixteen is for validation, one in sixteen for test.
    """
    root = lexicon().root
    key = ",".join(map(str, sorted([root[word] for word in words])))
    bucket = hashlib.blake2b(key.encode(), digest_size=1).digest()[0] % 16
    return "valid" if bucket == 14 else "test" if bucket == 15 else "train"
