"""Changes to what is said or how: words put for words, parts moved."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import Draw, pick
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence


def reworded(sentence: Sentence, words: Mapping[int, int]) -> Sentence:
    """The sentence with every word replaced that `words` has a replacement for; two may change places."""
    second = _clause(sentence.second, words) if sentence.second else None
    return sentence._replace(first=_clause(sentence.first, words), second=second)


def _clause(clause: Clause, words: Mapping[int, int]) -> Clause:
    return clause._replace(
        subject=_phrase(clause.subject, words),
        verb=words.get(clause.verb, clause.verb),
        object=_phrase(clause.object, words) if clause.object else None,
        recipient=_phrase(clause.recipient, words) if clause.recipient else None,
        content=_clause(clause.content, words) if clause.content else None,
        adverb=None if clause.adverb is None else words.get(clause.adverb, clause.adverb),
        place=_adposition(clause.place, words),
    )


def _phrase(phrase: Phrase, words: Mapping[int, int]) -> Phrase:
    return phrase._replace(
        noun=words.get(phrase.noun, phrase.noun),
        adjectives=tuple(words.get(adjective, adjective) for adjective in phrase.adjectives),
        complement=_adposition(phrase.complement, words),
        relative=_clause(phrase.relative, words) if phrase.relative else None,
    )


def _adposition(adposition: Adposition | None, words: Mapping[int, int]) -> Adposition | None:
    return adposition and adposition._replace(phrase=_phrase(adposition.phrase, words))


def rearranged(sentence: Sentence, draw: Draw) -> Sentence:
    """The same said in another order: another part opens each clause, and clauses joined by *and* may change places."""
    first, link, second, question = sentence
    first = _refronted(first, draw)
    if second and link < meaning.BECAUSE:
        second = _refronted(second, draw)
    independent = link == meaning.AND and second and second.subject.determiner != meaning.PRONOUN
    if second and independent and draw() < 0.5:
        first, second = second, first
    return Sentence(first, link, second, question)


def _refronted(clause: Clause, draw: Draw) -> Clause:
    parts = {meaning.OBJECT: clause.object, meaning.ADVERB: clause.adverb, meaning.PLACE: clause.place}
    present = [meaning.SUBJECT, *(part for part, content in parts.items() if content is not None)]
    return clause._replace(front=pick(draw, present))
