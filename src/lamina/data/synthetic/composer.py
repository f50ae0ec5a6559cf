"""Random sentences. The probabilities below give about fourteen words per sentence, and up to forty."""

from __future__ import annotations

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import Draw, pick
from lamina.data.synthetic.lexicon import lexicon, stocks
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence, pronoun

DETERMINERS = (meaning.DEFINITE,) * 5 + (meaning.INDEFINITE,) * 4 + (meaning.DEMONSTRATIVE,)
TENSES = (meaning.PAST,) * 5 + (meaning.PRESENT,) * 3 + (meaning.FUTURE,) * 2
LINKS = (meaning.AND,) * 4 + (meaning.BUT, meaning.BECAUSE, meaning.WHEN) * 2 + (meaning.ALTHOUGH,)

PLAIN, COMPLEMENTED, RELATED = range(3)
"""The modifiers that a noun may have besides adjectives: none, an adposition, or also a relative clause."""


class Composer:
    """Draws sentences, clauses and phrases, with a topic if given, and from the `commonest` words only if given."""

    def __init__(self, draw: Draw, topic: int | None = None, commonest: int | None = None) -> None:
        self.draw = draw
        self.stocks = stocks(topic, commonest)
        self.lexicon = lexicon()

    def sentence(self, subject: Phrase | None = None) -> Sentence:
        """One clause or two; the second often has the subject of the first."""
        draw = self.draw
        first = self.clause(subject)
        if draw() < 0.55:
            return Sentence(first)
        if draw() < 0.1:
            return Sentence(first._replace(front=meaning.SUBJECT), question=True)
        second = self.clause(pronoun(first.subject) if draw() < 0.5 else None)
        return Sentence(first, pick(draw, LINKS), second)

    def short_sentence(self) -> Sentence:
        """A single clause without embedded clauses, in the default order."""
        return Sentence(self.clause(most=PLAIN))

    def clause(self, subject: Phrase | None = None, most: int = RELATED) -> Clause:
        """A clause with this subject, or with a random one."""
        if subject:
            verb = pick(self.draw, self.stocks.verbs_of_subject[self.lexicon.animate[subject.noun]])
        else:
            verb = pick(self.draw, self.stocks.verbs)
            subject = self.phrase(self.lexicon.frame[verb].animate_subject, self.lexicon.side[verb], most)
        return self._complete(subject, verb, most)

    def _complete(self, subject: Phrase, verb: int, most: int, object: Phrase | None = None) -> Clause:
        """A clause with the arguments of its verb, a tense, and possibly adjuncts. Only main clauses embed a clause."""
        draw, frame, side = self.draw, self.lexicon.frame[verb], self.lexicon.side[verb]
        recipient = self.phrase(True, side, PLAIN) if frame.recipient else None
        if object is None and frame.object is not None:
            object = self.phrase(frame.object, side, most)
        content = self.clause(most=COMPLEMENTED) if frame.content and most == RELATED else None
        adverb = pick(draw, self.stocks.adverbs) if draw() < 0.35 else None
        place = self._adposition(self.lexicon.place_prepositions, side) if draw() < 0.3 else None
        tense, negated = pick(draw, TENSES), draw() < 0.1
        front = self._front(object, adverb, place) if most == RELATED else meaning.SUBJECT
        return Clause(subject, verb, object, recipient, content, tense, negated, adverb, place, front)

    def _front(self, object: Phrase | None, adverb: int | None, place: Adposition | None) -> int:
        """The constituent that opens the clause, usually the subject."""
        chance = self.draw()
        if adverb is not None and chance < 0.35:
            return meaning.ADVERB
        if place and chance < 0.6:
            return meaning.PLACE
        return meaning.OBJECT if object and chance > 0.85 else meaning.SUBJECT

    def phrase(self, animate: bool, side: int, most: int = PLAIN) -> Phrase:
        """A noun phrase that combines with verbs of this side."""
        draw = self.draw
        if animate and draw() < 0.2:
            name = Phrase(pick(draw, self.stocks.names), determiner=meaning.BARE)
            return name._replace(relative=self.relative(name)) if most == RELATED and draw() < 0.1 else name
        noun = pick(draw, self.stocks.nouns[side][animate])
        number = meaning.PLURAL if draw() < 0.3 else meaning.SINGULAR
        determiner = pick(draw, DETERMINERS)
        adjectives = self._adjectives()
        if most == PLAIN:
            return Phrase(noun, number, determiner, adjectives)
        complement = self._adposition(self.lexicon.noun_prepositions, side, most - 1) if draw() < 0.2 else None
        phrase = Phrase(noun, number, determiner, adjectives, complement)
        return phrase._replace(relative=self.relative(phrase)) if most == RELATED and draw() < 0.18 else phrase

    def character(self, animate: bool) -> Phrase:
        """A noun phrase for a new character, whose noun is unambiguous with any verb."""
        while True:
            phrase = self.phrase(animate, side=0)
            if self.lexicon.words[phrase.noun].side is None:
                named = phrase.determiner == meaning.BARE
                return phrase if named else phrase._replace(determiner=meaning.INDEFINITE)

    def _adjectives(self) -> tuple[int, ...]:
        chance = self.draw()
        if chance > 0.38:
            return ()
        first = pick(self.draw, self.stocks.adjectives)
        return (first,) if chance > 0.06 else (first, pick(self.draw, self.stocks.adjectives))

    def _adposition(self, prepositions: tuple[tuple[int, int], ...], side: int, most: int = PLAIN) -> Adposition:
        """An adposition, two times in three with an inanimate noun. Its phrase has no relative clause, which would be
        ambiguous."""
        animate = self.draw() < 0.33
        phrase = self.phrase(animate, side, min(most, COMPLEMENTED))
        return Adposition(pick(self.draw, prepositions)[animate], phrase)

    def relative(self, head: Phrase) -> Clause:
        """A relative clause in which `head` is the subject or the object, and left out."""
        animate = self.lexicon.animate[head.noun]
        if self.draw() < 0.6:
            return self.clause(head, COMPLEMENTED)._replace(gap=meaning.SUBJECT)
        verb = pick(self.draw, self.stocks.verbs_of_object[animate])
        subject = self.phrase(True, self.lexicon.side[verb])
        return self._complete(subject, verb, COMPLEMENTED, object=head)._replace(gap=meaning.OBJECT)
