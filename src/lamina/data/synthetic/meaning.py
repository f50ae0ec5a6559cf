"""The meaning of sentences, independent of language: phrases, clauses and sentences as plain tuples.

Words are ids of the lexicon; the small numbers are the constants below. Languages index their tables by these numbers.
"""

from __future__ import annotations

from typing import NamedTuple

SINGULAR, PLURAL = range(2)
NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
PRESENT, PAST, FUTURE = range(3)
BARE, INDEFINITE, DEFINITE, DEMONSTRATIVE, PRONOUN = range(5)
"""The determiner of a noun; PRONOUN replaces the noun by a pronoun."""
SUBJECT, OBJECT, ADVERB, PLACE = range(4)
"""The constituents that may open a main clause; subject and object may be the gap of a relative clause."""
ALONE, AND, BUT, BECAUSE, WHEN, ALTHOUGH = range(6)
"""The conjunction of a second clause. From BECAUSE on, the clause is subordinate."""


class Phrase(NamedTuple):
    """A noun phrase."""

    noun: int
    number: int = SINGULAR
    determiner: int = DEFINITE
    adjectives: tuple[int, ...] = ()
    complement: Adposition | None = None
    relative: Clause | None = None


class Adposition(NamedTuple):
    """An adpositional phrase: *with the neighbour*, *under the bridge*."""

    word: int
    phrase: Phrase


class Clause(NamedTuple):
    """A verb with its arguments and adjuncts. `gap` names the constituent that a relative clause leaves out."""

    subject: Phrase
    verb: int
    object: Phrase | None = None
    recipient: Phrase | None = None
    content: Clause | None = None
    tense: int = PRESENT
    negated: bool = False
    adverb: int | None = None
    place: Adposition | None = None
    front: int = SUBJECT
    gap: int | None = None


def pronoun(phrase: Phrase) -> Phrase:
    """A pronoun for the phrase. Pronouns always refer to the subject of the previous clause."""
    return Phrase(phrase.noun, phrase.number, PRONOUN)


def again(phrase: Phrase) -> Phrase:
    """The phrase when mentioned again: a definite noun, or a name."""
    return Phrase(phrase.noun, phrase.number, BARE if phrase.determiner == BARE else DEFINITE)


class Sentence(NamedTuple):
    """One clause, or two with a conjunction."""

    first: Clause
    link: int = ALONE
    second: Clause | None = None
    question: bool = False


def content_words(sentence: Sentence) -> list[int]:
    """The content words, which every language spells out: all but pronouns and prepositions."""
    found: list[int] = []
    _collect_clause(sentence.first, found)
    if sentence.second:
        _collect_clause(sentence.second, found)
    return found


def _collect_clause(clause: Clause, found: list[int]) -> None:
    found.append(clause.verb)
    if clause.adverb is not None:
        found.append(clause.adverb)
    if clause.gap != SUBJECT:
        _collect_phrase(clause.subject, found)
    if clause.object and clause.gap != OBJECT:
        _collect_phrase(clause.object, found)
    if clause.recipient:
        _collect_phrase(clause.recipient, found)
    if clause.place:
        _collect_phrase(clause.place.phrase, found)
    if clause.content:
        _collect_clause(clause.content, found)


def _collect_phrase(phrase: Phrase, found: list[int]) -> None:
    noun, _, determiner, adjectives, complement, relative = phrase
    if determiner != PRONOUN:
        found.append(noun)
    found += adjectives
    if complement:
        _collect_phrase(complement.phrase, found)
    if relative:
        _collect_clause(relative, found)
