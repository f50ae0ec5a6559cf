"""Paragraphs with headlines. The headline tells what the protagonist did last, in few words.

The protagonist is who the first sentence is about. Others act before and after, pronouns stand for whoever was the last
subject, and the news may be the second half of a sentence about somebody else: to find it, one has to read.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import Draw, chance, pick
from lamina.data.synthetic.composer import COMPLEMENTED, Composer
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence, again, content_words, pronoun
from lamina.data.synthetic.splits import check_split, split_of


def headline_pairs(split: str, count: int, *, seed: int = 0, language: str = "marn") -> Iterator[tuple[str, str]]:
    """`count` paragraphs of two to seven sentences, each with its headline. No headline occurs in two splits."""
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
    """The news, as a sentence of its own or as the second half of one about somebody else."""
    if composer.draw() < 0.3:
        link = pick(composer.draw, (meaning.AND, meaning.BUT))
        return Sentence(_other_clause(composer, protagonist), link, news)
    resumed = pronoun(last_subject) == pronoun(protagonist)
    return Sentence(news._replace(subject=pronoun(protagonist)) if resumed else news)


def _aside(composer: Composer, protagonist: Phrase) -> list[Sentence]:
    """What somebody else does, once or twice."""
    first = _other_clause(composer, protagonist)
    if composer.draw() < 0.6:
        return [Sentence(first)]
    return [Sentence(first), Sentence(composer.clause(pronoun(first.subject), COMPLEMENTED))]


def _other_clause(composer: Composer, protagonist: Phrase) -> Clause:
    while (clause := composer.clause(most=COMPLEMENTED)).subject.noun == protagonist.noun:
        pass
    return clause


def headline_of(protagonist: Phrase, news: Clause) -> Clause:
    """Who — as introduced —, what, to whom and where, in the present tense and without determiners."""
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
