"""Generators of labelled sentence pairs, paraphrases and entailments, in which bags of words do not reveal the label.

In a *paraphrase* pair the second sentence is always rearranged. In one pair of three it has exactly the words of the
first: if the meanings differ, two nouns or adjectives have been exchanged. In the others, words are replaced by
synonyms or by other words.

In an *entailment* pair every word of the hypothesis is in its premise. A premise describes two actions. One is stated
as a fact; the other is negated, or reported as what somebody says. The hypothesis follows if it repeats the fact; it
does not follow if it repeats the other action, or combines the fact with the other action's subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, islice

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import Draw, chance, fair_labels, pick
from lamina.data.synthetic.composer import COMPLEMENTED, LINKS, Composer
from lamina.data.synthetic.grammar import Grammar, grammar
from lamina.data.synthetic.lexicon import check_split, lexicon, split_of
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence, again, content_words


def paraphrase_pairs(
    split: str, count: int, *, seed: int = 0, language: str = "marn"
) -> Iterator[tuple[str, str, int]]:
    """`count` triples of two sentences and 1 if they mean the same, else 0. No sentence occurs in two splits."""
    check_split(split)
    speaker, draw = grammar(language), chance("paraphrases", split, seed)
    composer = Composer(draw)
    for label in islice(fair_labels(draw), count):
        make = _exchange if draw() < 0.33 else _replace
        while (pair := make(composer, speaker, split, bool(label))) is None:
            pass
        yield speaker.sentence(pair[0]), speaker.sentence(pair[1]), label


MadePair = tuple[Sentence, Sentence] | None


def _exchange(composer: Composer, speaker: Grammar, split: str, same: bool) -> MadePair:
    """Two orders of a clause, or with two words exchanged such that the counts of words stay the same."""
    first, second = _two_orders(composer, split)
    for one, other in combinations(_movable_words(first), 2):
        exchanged = reworded(second, {one: other, other: one})
        if _interchangeable(one, other, speaker) and _counts(speaker, exchanged) == _counts(speaker, second):
            return first, second if same else exchanged
    return None


def _replace(composer: Composer, speaker: Grammar, split: str, same: bool) -> MadePair:
    """Two orders of a clause in which words are replaced by their synonyms, or by words that are not synonyms.

    Word and replacement are two of four words, two pairs of synonyms, with the same probabilities for both labels:
    neither of the two sentences alone reveals the label.
    """
    draw, quartets = composer.draw, _quartets(speaker.language.name)
    first, second = _two_orders(composer, split)
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for word in content_words(first):
        if word in quartets:
            synonyms, others = quartets[word] if draw() < 0.5 else quartets[word][::-1]
            place = int(draw() < 0.5)
            before[word] = synonyms[place]
            after[word] = synonyms[1 - place] if same else pick(draw, others)
    first, second = reworded(first, before), reworded(second, after)
    fits = split_of(content_words(first)) == split == split_of(content_words(second))
    return (first, second) if before and fits else None


def _two_orders(composer: Composer, split: str) -> tuple[Sentence, Sentence]:
    """A clause of the split that has two orders, in both."""
    while True:
        sentence = Sentence(composer.clause(most=COMPLEMENTED))
        if split_of(content_words(sentence)) == split:
            other = rearranged(sentence, composer.draw)
            if other != sentence:
                return sentence, other


def _movable_words(sentence: Sentence) -> list[int]:
    """Adjectives, and nouns that are unambiguous with any verb, each once."""
    words = (lexicon().words[word] for word in content_words(sentence))
    return list(dict.fromkeys(word.id for word in words if word.kind in ("adjective", "noun") and word.side is None))


def _interchangeable(one: int, other: int, speaker: Grammar) -> bool:
    first, second = lexicon().words[one], lexicon().words[other]
    return (first.kind, first.animate, speaker.gender[one]) == (second.kind, second.animate, speaker.gender[other])


def _counts(speaker: Grammar, sentence: Sentence) -> list[str]:
    """The bag of words of a sentence."""
    return sorted(word.strip(",.").lower() for word in speaker.sentence(sentence).split())


@cache
def _quartets(language: str) -> dict[int, tuple[tuple[int, int], tuple[int, int]]]:
    """For each word, two pairs of synonyms of the same kind and gender, so that all four fit where one does."""
    gender = grammar(language).gender
    alike: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for word in lexicon().words:
        if word.synonym is not None and word.id == word.root:
            features = (word.kind, word.animate, word.side, word.frame, gender[word.id])
            alike.setdefault(features, []).append((word.id, word.synonym))
    found: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
    for pairs in alike.values():
        for first, second in zip(pairs[::2], pairs[1::2], strict=False):
            found |= dict.fromkeys(first + second, (first, second))
    return found


def reworded(sentence: Sentence, words: Mapping[int, int]) -> Sentence:
    """The sentence with words replaced by `words`; two words can be exchanged."""
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
    """The same meaning in another order: another constituent opens each clause, and clauses joined by *and* may be
    exchanged."""
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


def entailment_pairs(
    split: str, count: int, *, seed: int = 0, language: str = "marn"
) -> Iterator[tuple[str, str, int]]:
    """`count` triples of premise, hypothesis and 1 if it follows, else 0. No premise occurs in two splits."""
    check_split(split)
    speaker, draw = grammar(language), chance("entailments", split, seed)
    composer = Composer(draw)
    for label in islice(fair_labels(draw), count):
        while True:
            fact, other = _actions(composer, speaker)
            premise = _premise(composer, fact, other)
            if split_of(content_words(premise)) == split:
                break
        wrong = _core(other) if draw() < 0.75 else _core(fact._replace(subject=other.subject))
        yield speaker.sentence(premise), speaker.sentence(Sentence(_core(fact) if label else wrong)), label


def _actions(composer: Composer, speaker: Grammar) -> tuple[Clause, Clause]:
    """Two actions of two subjects with the same agreement class, so that verb forms do not disambiguate."""
    while True:
        one, other = _action(composer), _action(composer)
        alike = speaker.agreement(one.subject) == speaker.agreement(other.subject)
        if alike and one.subject.noun != other.subject.noun and one.verb != other.verb:
            return one, other


def _action(composer: Composer) -> Clause:
    while True:
        action = composer.clause(composer.character(animate=True), COMPLEMENTED)
        if action.object:
            return action._replace(negated=False)


def _premise(composer: Composer, fact: Clause, other: Clause) -> Sentence:
    draw = composer.draw
    veiled = other._replace(negated=True) if draw() < 0.7 else _reported(composer, other)
    first, second = (fact, veiled) if draw() < 0.5 else (veiled, fact)
    return Sentence(first, pick(draw, LINKS), second)


def _reported(composer: Composer, action: Clause) -> Clause:
    """The action reported by a character: *the neighbour says that …*"""
    while not lexicon().frame[(saying := composer.clause(composer.character(animate=True), COMPLEMENTED)).verb].content:
        pass
    return saying._replace(content=action, negated=False)


def _core(action: Clause) -> Clause:
    """The action without its adjuncts."""
    return Clause(
        again(action.subject),
        action.verb,
        object=again(action.object) if action.object else None,
        recipient=again(action.recipient) if action.recipient else None,
        tense=action.tense,
    )
