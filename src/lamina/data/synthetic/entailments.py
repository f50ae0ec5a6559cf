"""Premises and hypotheses: does the second follow from the first? Every word of a hypothesis is in its premise.

A premise tells two deeds. One is a fact; the other is denied, or only what somebody says. The hypothesis follows if it
repeats the fact; it does not if it repeats the other deed, or has the other one's subject do the fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lamina.data.synthetic.chance import chance, fair_labels, pick
from lamina.data.synthetic.composer import COMPLEMENTED, LINKS, Composer
from lamina.data.synthetic.grammar import Grammar, grammar
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.meaning import Clause, Sentence, again, content_words
from lamina.data.synthetic.splits import check_split, split_of


def entailment_pairs(
    split: str, count: int, *, seed: int = 0, language: str = "marn"
) -> Iterator[tuple[str, str, int]]:
    """`count` triples of premise, hypothesis and 1 if it follows, else 0. No premise occurs in two splits."""
    check_split(split)
    speaker, draw = grammar(language), chance("entailments", split, seed)
    composer = Composer(draw)
    for label in islice(fair_labels(draw), count):
        while True:
            fact, other = _deeds(composer, speaker)
            premise = _premise(composer, fact, other)
            if split_of(content_words(premise)) == split:
                break
        wrong = _core(other) if draw() < 0.75 else _core(fact._replace(subject=other.subject))
        yield speaker.sentence(premise), speaker.sentence(Sentence(_core(fact) if label else wrong)), label


def _deeds(composer: Composer, speaker: Grammar) -> tuple[Clause, Clause]:
    """Two deeds by two subjects that no verb form can tell apart."""
    while True:
        one, other = _deed(composer), _deed(composer)
        alike = speaker.agreement(one.subject) == speaker.agreement(other.subject)
        if alike and one.subject.noun != other.subject.noun and one.verb != other.verb:
            return one, other


def _deed(composer: Composer) -> Clause:
    while True:
        deed = composer.clause(composer.character(animate=True), COMPLEMENTED)
        if deed.object:
            return deed._replace(negated=False)


def _premise(composer: Composer, fact: Clause, other: Clause) -> Sentence:
    draw = composer.draw
    veiled = other._replace(negated=True) if draw() < 0.7 else _reported(composer, other)
    first, second = (fact, veiled) if draw() < 0.5 else (veiled, fact)
    return Sentence(first, pick(draw, LINKS), second)


def _reported(composer: Composer, deed: Clause) -> Clause:
    """*The neighbour says that …*"""
    while not lexicon().frame[(saying := composer.clause(composer.character(animate=True), COMPLEMENTED)).verb].content:
        pass
    return saying._replace(content=deed, negated=False)


def _core(deed: Clause) -> Clause:
    """The deed without its circumstances."""
    return Clause(
        again(deed.subject),
        deed.verb,
        object=again(deed.object) if deed.object else None,
        recipient=again(deed.recipient) if deed.recipient else None,
        tense=deed.tense,
    )
