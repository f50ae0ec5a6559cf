"""Realises sentences in a language: word order, agreement, commas and capitals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lamina.data.synthetic import meaning
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence
from lamina.data.synthetic.vocabulary import INFINITIVE, PLURAL_CLASS, vocabulary

Say = Callable[[list[str], Clause], None]
"""Appends the words of one constituent of a clause, or nothing if the clause does not have it."""

FRONTS = ("subject", "object", "adverb", "place")
"""The constituents that may open a clause, in the order of their constants in `meaning`."""

VERB = ("finite", "negation")
"""The constituents that move together if the verb comes second."""


class Grammar:
    """The grammar of one language. Each constituent has a method that appends its words."""

    def __init__(self, name: str) -> None:
        self.vocabulary = vocabulary(name)
        self.language = self.vocabulary.language
        self.forms, self.gender = self.vocabulary.forms, self.vocabulary.gender
        self._main = [self._plan(self._fronted(front)) for front in FRONTS]
        self._subordinate = self._plan(self.language.subordinate.split())
        self._question = self._plan(self._asking())
        order = self.language.phrase.split()
        self._phrase_parts = [getattr(self, f"_add_{part}") for part in order]
        self._relative_first = order.index("relative") < order.index("noun")

    def sentence(self, sentence: Sentence) -> str:
        """The sentence as text."""
        words: list[str] = []
        first, link, second, question = sentence
        if question:
            self._say(words, first, self._question)
            if not self.language.verb_second:
                words.append(self.vocabulary.question)
        elif second is None:
            self._say(words, first, self._main[first.front])
        elif link < meaning.BECAUSE:
            self._say(words, first, self._main[first.front])
            _comma(words)
            words.append(self.vocabulary.links[link])
            self._say(words, second, self._main[second.front])
        elif self.language.linker_last:
            self._say_subordinate(words, second, self.vocabulary.links[link])
            _comma(words)
            self._say(words, first, self._main[first.front])
        else:
            self._say(words, first, self._main[first.front])
            _comma(words)
            self._say_subordinate(words, second, self.vocabulary.links[link])
        return _finish(words, "?" if question else ".")

    def headline(self, clause: Clause) -> str:
        """A clause as a headline, without full stop."""
        words: list[str] = []
        self._say(words, clause, self._main[clause.front])
        return _finish(words, "")

    # Clauses

    def _fronted(self, front: str) -> list[str]:
        """The order of a main clause that opens with this constituent."""
        order = self.language.main.split()
        moved = [front, *VERB] if self.language.verb_second else [front]
        return order if front == "subject" else moved + [part for part in order if part not in moved]

    def _asking(self) -> list[str]:
        order = self.language.main.split()
        return sorted(order, key=lambda part: part not in VERB) if self.language.verb_second else order

    def _plan(self, parts: list[str]) -> list[Say]:
        return [getattr(self, f"_say_{part}") for part in parts]

    def _say(self, words: list[str], clause: Clause, plan: list[Say]) -> None:
        for say in plan:
            say(words, clause)

    def _say_subordinate(self, words: list[str], clause: Clause, linker: str) -> None:
        if not self.language.linker_last:
            words.append(linker)
        self._say(words, clause, self._subordinate)
        if self.language.linker_last:
            words.append(linker)

    def _say_subject(self, words: list[str], clause: Clause) -> None:
        if clause.gap != meaning.SUBJECT:
            self._add_phrase(words, clause.subject, meaning.NOMINATIVE)

    def _say_object(self, words: list[str], clause: Clause) -> None:
        if clause.object and clause.gap != meaning.OBJECT:
            self._add_phrase(words, clause.object, meaning.ACCUSATIVE)

    def _say_recipient(self, words: list[str], clause: Clause) -> None:
        if clause.recipient:
            self._add_phrase(words, clause.recipient, meaning.DATIVE)

    def _say_adverb(self, words: list[str], clause: Clause) -> None:
        if clause.adverb is not None:
            words.append(self.forms[clause.adverb][0])

    def _say_place(self, words: list[str], clause: Clause) -> None:
        if clause.place:
            self._add_adposition(words, clause.place)

    def _say_negation(self, words: list[str], clause: Clause) -> None:
        if clause.negated:
            words.append(self.vocabulary.negation)

    def _say_content(self, words: list[str], clause: Clause) -> None:
        if clause.content:
            if not self.language.linker_last:
                _comma(words)
            self._say_subordinate(words, clause.content, self.vocabulary.complementiser)

    def _say_finite(self, words: list[str], clause: Clause) -> None:
        kind = self.agreement(clause.subject)
        if clause.tense == meaning.FUTURE and self.language.auxiliary_future:
            words.append(self.vocabulary.auxiliaries[kind])
        else:
            words.append(self.forms[clause.verb][4 * clause.tense + kind])

    def _say_infinitive(self, words: list[str], clause: Clause) -> None:
        if clause.tense == meaning.FUTURE:
            words.append(self.forms[clause.verb][INFINITIVE])

    # Phrases

    def agreement(self, phrase: Phrase) -> int:
        """The agreement class of a phrase."""
        return PLURAL_CLASS if phrase.number else self.gender[phrase.noun]

    def _add_phrase(self, words: list[str], phrase: Phrase, case: int) -> None:
        if phrase.determiner == meaning.PRONOUN:
            self._add_determiner(words, phrase, case)
        else:
            for add in self._phrase_parts:
                add(words, phrase, case)

    def _add_determiner(self, words: list[str], phrase: Phrase, case: int) -> None:
        declined = self.vocabulary.determiners.get(phrase.determiner)
        if declined:
            words.append(declined[3 * self.agreement(phrase) + case])

    def _add_noun(self, words: list[str], phrase: Phrase, case: int) -> None:
        words.append(self.forms[phrase.noun][6 * phrase.determiner + 3 * phrase.number + case])

    def _add_adjectives(self, words: list[str], phrase: Phrase, case: int) -> None:
        if phrase.adjectives:
            kind = self.agreement(phrase)
            words += [self.forms[adjective][kind] for adjective in phrase.adjectives]

    def _add_complement(self, words: list[str], phrase: Phrase, case: int) -> None:
        if phrase.complement:
            self._add_adposition(words, phrase.complement)

    def _add_adposition(self, words: list[str], adposition: Adposition) -> None:
        if not self.language.postpositions:
            words.append(self.forms[adposition.word][0])
        self._add_phrase(words, adposition.phrase, meaning.DATIVE)
        if self.language.postpositions:
            words.append(self.forms[adposition.word][0])

    def _add_relative(self, words: list[str], phrase: Phrase, case: int) -> None:
        """A relative clause: before its noun it ends in a particle, after it it begins with a pronoun, between
        commas."""
        if phrase.relative is None:
            return
        if self._relative_first:
            self._say(words, phrase.relative, self._subordinate)
            words.append(self.vocabulary.relativiser)
        else:
            role = meaning.ACCUSATIVE if phrase.relative.gap == meaning.OBJECT else meaning.NOMINATIVE
            _comma(words)
            words.append(self.vocabulary.relatives[3 * self.agreement(phrase) + role])
            self._say(words, phrase.relative, self._subordinate)
            _comma(words)


def _comma(words: list[str]) -> None:
    if not words[-1].endswith(","):
        words[-1] += ","


def _finish(words: list[str], mark: str) -> str:
    text = " ".join(words).removesuffix(",") + mark
    return text[0].upper() + text[1:]


@cache
def grammar(name: str) -> Grammar:
    """The grammar of the language of that name."""
    return Grammar(name)
