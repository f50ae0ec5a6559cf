"""The words that all embedded languages share, as meanings: what they are, how frequent, and with what they go.

Words come in families of one or two. Two are either *synonyms*, which may stand for each other, or *homographs*: in one
of the languages they are written alike, and only their context tells which is meant — a noun by the side of its verb,
a verb by whether its object is animate, a preposition by whether its noun is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from lamina.data.synthetic.chance import chance, zipf_stock
from lamina.data.synthetic.language import LANGUAGES

TOPICS = 12
NOUN_FAMILIES, VERB_FAMILIES, ADJECTIVE_FAMILIES, ADVERB_FAMILIES, NAMES = 210, 80, 48, 24, 36
NOUN_PREPOSITIONS, PLACE_PREPOSITIONS = 4, 6

PATTERN = ("single", "synonyms", "single", "homographs", "single")
"""What the families of nouns and verbs are, in turn; of adjectives and adverbs too, where homographs stay single."""


class Frame(NamedTuple):
    """What a verb takes. `object` is None (nothing), True (somebody) or False (something)."""

    animate_subject: bool = True
    object: bool | None = None
    recipient: bool = False
    content: bool = False


# Verb families take these in turn. Those at 3 and 8 meet the homographs of PATTERN, so they must have an object.
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
    """One meaning. The members of a family have the same gender in every language."""

    kind: str
    family: int
    id: int = 0
    root: int = 0
    """The id of the first in the family."""
    rank: int = 0
    """How many words of the kind are more frequent."""
    synonym: int | None = None
    homograph_in: str | None = None
    """The language in which this word is written like the first of its family."""
    animate: bool = False
    side: int | None = None
    """Of a verb: which of two kinds of doing. Of a noun: the kind of verb it goes with, None for both."""
    frame: Frame = Frame()

    @property
    def topic(self) -> int:
        return self.family % TOPICS


class Lexicon:
    """All words by id, and their features as tables for quick reading."""

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
        """The languages take turns in writing a pair alike."""
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
        """Each is two words, for something and for somebody, of which one language makes no difference."""
        first = len(self.words)
        for pair in range(count):
            preposition = Word("preposition", first + pair)
            self._add_homographs(preposition, replace(preposition, animate=True), pair)
        return tuple((first + 2 * pair, first + 2 * pair + 1) for pair in range(count))


class Stocks(NamedTuple):
    """What to pick words from; frequent words occur in them often."""

    nouns: tuple[tuple[tuple[int, ...], ...], ...]
    """By side, then by animacy."""
    names: tuple[int, ...]
    verbs: tuple[int, ...]
    verbs_of_subject: tuple[tuple[int, ...], ...]
    """By animacy of the subject."""
    verbs_of_object: tuple[tuple[int, ...], ...]
    """By animacy of the object; their subjects are animate."""
    adjectives: tuple[int, ...]
    adverbs: tuple[int, ...]


@cache
def lexicon() -> Lexicon:
    return Lexicon()


@cache
def stocks(topic: int | None = None, commonest: int | None = None) -> Stocks:
    """What to pick words from in a text on this topic, or on nothing in particular; of each kind all words, or only so
    many of the commonest."""

    def stock(words: Iterable[Word]) -> tuple[int, ...]:
        """Words of the topic rise in rank: a text on the sea has another commonest noun than one on the law."""
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
