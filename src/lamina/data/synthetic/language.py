"""The properties in which the embedded languages differ: sounds, word order, and what they mark where.

The words and endings of a language are drawn from its sounds, always the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.errors import unknown


@dataclass(frozen=True)
class Language:
    """One language. Orders list constituents from left to right; a constituent that is absent is skipped."""

    name: str
    onsets: str
    vowels: str
    codas: str
    main: str
    subordinate: str
    phrase: str
    verb_second: bool = False
    """The finite verb is the second constituent of a main clause and the first of a question."""
    articles: bool = False
    """Determiners are words that carry the case; otherwise they are endings of the noun."""
    postpositions: bool = False
    """Adpositions follow their phrase."""
    linker_last: bool = False
    """Subordinate clauses end in their conjunction and precede the main clause."""
    auxiliary_future: bool = False
    """The future tense is an auxiliary with an infinitive."""
    gendered_verbs: bool = False
    """Verbs agree with the gender of their subject, not only with its number."""
    genders: int = 2


MARN = Language(
    name="marn",
    onsets="b d f g k l m n r s t v br dr gr st",
    vowels="a e i o u",
    codas="- n r l s t",
    main="subject finite negation recipient object adverb place infinitive content",
    subordinate="subject recipient object adverb place negation infinitive finite content",
    phrase="determiner adjectives noun complement relative",
    verb_second=True,
    articles=True,
    auxiliary_future=True,
    genders=3,
)

TUVO = Language(
    name="tuvo",
    onsets="č j k l m p q v w y z ž",
    vowels="a i u ö é",
    codas="- - l m n š x",
    main="subject place recipient object adverb content negation finite",
    subordinate="subject place recipient object adverb content negation finite",
    phrase="determiner relative complement noun adjectives",
    postpositions=True,
    linker_last=True,
    gendered_verbs=True,
)

SELU = Language(
    name="selu",
    onsets="c d gw h ll m n p r s th w",
    vowels="a e o y â ê",
    codas="- d n r th",
    main="negation finite subject recipient object adverb place content",
    subordinate="negation finite subject recipient object adverb place content",
    phrase="noun adjectives determiner complement relative",
    gendered_verbs=True,
)

NORIC = Language(
    name="noric",
    onsets="b d f h j k m n sk sv t v",
    vowels="a e i o ø",
    codas="- l m n p v",
    main="subject adverb negation finite object recipient place content",
    subordinate="subject adverb negation finite object recipient place content",
    phrase="determiner adjectives noun complement relative",
    articles=True,
)

LANGUAGES = {language.name: language for language in (MARN, TUVO, SELU, NORIC)}


def language_named(name: str) -> Language:
    """The language of that name."""
    if name not in LANGUAGES:
        raise unknown("embedded language", name, LANGUAGES)
    return LANGUAGES[name]
