"""Generators of text: parallel sentences, running text, and paragraphs with headlines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import Draw, chance, pick
from lamina.data.synthetic.composer import COMPLEMENTED, Composer
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.lexicon import TOPICS, check_split, split_of
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence, again, content_words, pronoun

SHORT_COMMONEST = 24


def translation_pairs(
    split: str,
    count: int,
    *,
    seed: int = 0,
    source: str = "marn",
    target: str = "tuvo",
    short: bool = False,
    commonest: int = SHORT_COMMONEST,
) -> Iterator[tuple[str, str]]:
    """`count` pairs of sentences; tests have found no sentence with two translations.

    Short sentences are single clauses of the `commonest` words of each kind: a small model learns them in minutes.
    """
    check_split(split)
    say_source, say_target = grammar(source).sentence, grammar(target).sentence
    for sentence in islice(_sentences(split, seed, commonest if short else None), count):
        yield say_source(sentence), say_target(sentence)


def _sentences(split: str, seed: int, commonest: int | None) -> Iterator[Sentence]:
    """An endless sequence of sentences of a split, short ones of the commonest words if their number is given.

    A meaning is in the same split in all languages.
    """
    draw = chance("translation", split, seed)
    compose = Composer(draw, commonest=commonest).short_sentence if commonest else Composer(draw).sentence
    while True:
        sentence = compose()
        if split_of(content_words(sentence)) == split:
            yield sentence


CAST = (0, 0, 0, 1, 1, 2)
"""The indices of the characters that sentences have as subjects; most often the first."""


def running_text(split: str, count: int, *, seed: int = 0, language: str = "marn") -> Iterator[str]:
    """`count` documents on a topic, of two to five paragraphs separated by `\\n`. No sentence occurs in two splits.

    The characters of a document recur as nouns, names and pronouns.
    """
    check_split(split)
    say, draw = grammar(language).sentence, chance("running text", split, seed)
    for _ in range(count):
        document = _Document(draw, split)
        yield "\n".join(" ".join(map(say, document.paragraph())) for _ in range(2 + int(draw() * 4)))


class _Document:
    """Draws the sentences of a document and records which characters have been mentioned."""

    def __init__(self, draw: Draw, split: str) -> None:
        self.draw, self.split = draw, split
        self.composer = Composer(draw, topic=int(draw() * TOPICS))
        self.cast = [self.composer.character(draw() < 0.7) for _ in range(1 + max(CAST))]
        self.known: list[Phrase] = []
        self.last_subject: Phrase | None = None

    def paragraph(self) -> list[Sentence]:
        """A paragraph, whose first sentence has no pronoun."""
        self.last_subject = None
        return [self._sentence() for _ in range(3 + int(self.draw() * 4))]

    def _sentence(self) -> Sentence:
        character = pick(self.draw, CAST) if self.draw() < 0.65 else None
        mention = None if character is None else self._mention(self.cast[character])
        sentence = self.composer.sentence(mention)
        while split_of(content_words(sentence)) != self.split:
            sentence = self.composer.sentence(mention)
        if character is not None and self.cast[character] not in self.known:
            self.known.append(self.cast[character])
        self.last_subject = pronoun((sentence.second or sentence.first).subject)
        return sentence

    def _mention(self, character: Phrase) -> Phrase:
        """The full phrase at first, then the definite noun; a pronoun only directly after being the subject."""
        if character not in self.known:
            return character
        if pronoun(character) == self.last_subject and self.draw() < 0.7:
            return pronoun(character)
        return again(character)


def headline_pairs(split: str, count: int, *, seed: int = 0, language: str = "marn") -> Iterator[tuple[str, str]]:
    """`count` paragraphs of two to seven sentences, each with its headline. No headline occurs in two splits.

    The headline says what the protagonist, the subject of the first sentence, did last. Other characters act before and
    after, pronouns refer to the last subject, and the event may be the second clause of a sentence about somebody else.
    """
    check_split(split)
    speaker, draw = grammar(language), chance("headlines", split, seed)
    for _ in range(count):
        paragraph, headline = _story(draw, split)
        yield " ".join(map(speaker.sentence, paragraph)), speaker.headline(headline)


def _story(draw: Draw, split: str) -> tuple[list[Sentence], Clause]:
    composer = Composer(draw)
    protagonist = composer.character(draw() < 0.8)
    news = composer.clause(again(protagonist))
    while news.content or split_of(content_words(Sentence(headline_of(protagonist, news)))) != split:
        news = composer.clause(again(protagonist))
    paragraph = [Sentence(composer.clause(protagonist, COMPLEMENTED))]
    if draw() < 0.4:
        paragraph.append(Sentence(composer.clause(pronoun(protagonist), COMPLEMENTED)))
    if draw() < 0.5:
        paragraph += _aside(composer, protagonist)
    paragraph.append(_report(composer, protagonist, paragraph[-1].first.subject, news))
    if draw() < 0.6:
        paragraph += _aside(composer, protagonist)
    return paragraph, headline_of(protagonist, news)


def _report(composer: Composer, protagonist: Phrase, last_subject: Phrase, news: Clause) -> Sentence:
    """The event of the headline, as a sentence of its own or as the second clause of one about somebody else."""
    if composer.draw() < 0.3:
        link = pick(composer.draw, (meaning.AND, meaning.BUT))
        return Sentence(_other_clause(composer, protagonist), link, news)
    resumed = pronoun(last_subject) == pronoun(protagonist)
    return Sentence(news._replace(subject=pronoun(protagonist)) if resumed else news)


def _aside(composer: Composer, protagonist: Phrase) -> list[Sentence]:
    """One or two sentences about another character."""
    first = _other_clause(composer, protagonist)
    if composer.draw() < 0.6:
        return [Sentence(first)]
    return [Sentence(first), Sentence(composer.clause(pronoun(first.subject), COMPLEMENTED))]


def _other_clause(composer: Composer, protagonist: Phrase) -> Clause:
    while (clause := composer.clause(most=COMPLEMENTED)).subject.noun == protagonist.noun:
        pass
    return clause


def headline_of(protagonist: Phrase, news: Clause) -> Clause:
    """The clause of a headline: in the present tense, without determiners, with the subject as introduced."""
    return Clause(
        _bare(protagonist),
        news.verb,
        object=_bare(news.object) if news.object else None,
        recipient=_bare(news.recipient) if news.recipient else None,
        negated=news.negated,
        place=Adposition(news.place.word, _bare(news.place.phrase)) if news.place else None,
    )


def _bare(phrase: Phrase) -> Phrase:
    return Phrase(phrase.noun, phrase.number, meaning.BARE, phrase.adjectives)
