"""The grammar of the embedded languages: word order, agreement over distance, and homographs."""

from __future__ import annotations

import pytest

from lamina.data.synthetic import LANGUAGES, meaning
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.lexicon import Frame, lexicon
from lamina.data.synthetic.meaning import Adposition, Clause, Phrase, Sentence
from lamina.data.synthetic.vocabulary import vocabulary

PEOPLE = [word.id for word in lexicon().of_kind("noun") if word.animate and word.side is None]


THINGS = [word.id for word in lexicon().of_kind("noun") if not word.animate and word.side is None]


ADJECTIVE, ADVERB = (lexicon().of_kind(kind)[0].id for kind in ("adjective", "adverb"))


SEE, SLEEP = (
    next(word.id for word in lexicon().of_kind("verb") if word.frame == frame)
    for frame in (Frame(object=True), Frame())
)


WITH, UNDER = lexicon().noun_prepositions[0][0], lexicon().place_prepositions[0][0]


def said(language: str, clause: Clause) -> list[str]:
    return [word.strip(",.?").lower() for word in grammar(language).sentence(Sentence(clause)).split()]


def place_of(language: str, word: int, words: list[str]) -> int:
    """The position of any form of a word."""
    forms = {form.lower() for form in vocabulary(language).forms[word]}
    (place,) = (number for number, spoken in enumerate(words) if spoken in forms)
    return place


clause = Clause(
    Phrase(PEOPLE[0]),
    SEE,
    object=Phrase(PEOPLE[1], adjectives=(ADJECTIVE,)),
    tense=meaning.PAST,
    adverb=ADVERB,
    place=Adposition(UNDER, Phrase(THINGS[0])),
)


fronts = pytest.mark.parametrize("front", range(4), ids=["subject", "object", "adverb", "place"])


@fronts
def test_the_finite_verb_is_second_in_marn_whatever_comes_first(front: int) -> None:
    words = said("marn", clause._replace(front=front))
    lengths = {meaning.SUBJECT: 2, meaning.OBJECT: 3, meaning.ADVERB: 1, meaning.PLACE: 3}
    assert place_of("marn", SEE, words) == lengths[front]


@fronts
def test_the_verb_is_last_in_tuvo(front: int) -> None:
    words = said("tuvo", clause._replace(front=front))
    assert place_of("tuvo", SEE, words) == len(words) - 1


def test_the_verb_comes_first_in_selu_and_between_in_noric() -> None:
    assert place_of("selu", SEE, said("selu", clause)) == 0
    words = said("noric", clause)
    assert place_of("noric", PEOPLE[0], words) < place_of("noric", SEE, words) < place_of("noric", PEOPLE[1], words)


def test_the_future_of_marn_holds_the_clause_between_its_two_parts() -> None:
    words = said("marn", clause._replace(tense=meaning.FUTURE))
    assert words[2] in vocabulary("marn").auxiliaries
    assert words[-1] == vocabulary("marn").forms[SEE][-1]


@pytest.mark.parametrize(("language", "before"), [("marn", True), ("tuvo", False), ("selu", False), ("noric", True)])
def test_adjectives_precede_or_follow_their_noun(language: str, before: bool) -> None:
    words = said(language, clause)
    assert (place_of(language, ADJECTIVE, words) < place_of(language, PEOPLE[1], words)) == before


@pytest.mark.parametrize(("language", "before"), [("marn", True), ("tuvo", False), ("selu", True), ("noric", True)])
def test_adpositions_precede_or_follow_their_noun(language: str, before: bool) -> None:
    words = said(language, clause)
    assert (place_of(language, UNDER, words) < place_of(language, THINGS[0], words)) == before


@pytest.mark.parametrize("language", LANGUAGES)
def test_verb_and_subject_agree_over_any_distance(language: str) -> None:
    """With a complement and a relative clause between them, number changes only in the phrase's head and the verb."""
    head = Phrase(PEOPLE[0], complement=Adposition(WITH, Phrase(THINGS[0], adjectives=(ADJECTIVE,))))
    relative = Clause(Phrase(PEOPLE[2]), SEE, object=head, adverb=ADVERB, gap=meaning.OBJECT)

    def spoken(number: int) -> list[str]:
        return said(language, Clause(head._replace(number=number, relative=relative), SLEEP, tense=meaning.PAST))

    one, many = spoken(meaning.SINGULAR), spoken(meaning.PLURAL)
    verb, noun = place_of(language, SLEEP, one), place_of(language, PEOPLE[0], one)
    assert len(one) == len(many)
    assert one[verb] != many[verb]
    assert one[noun] != many[noun]
    assert one[place_of(language, SEE, one)] == many[place_of(language, SEE, many)]
    if language == "marn":
        assert verb - noun >= 7


@pytest.mark.parametrize("language", LANGUAGES)
def test_adjectives_agree_in_gender_and_number(language: str) -> None:
    gender = vocabulary(language).gender
    one, other = (next(noun for noun in PEOPLE if gender[noun] == kind) for kind in (0, 1))

    def adjective(noun: int, number: int) -> str:
        words = said(language, Clause(Phrase(noun, number, adjectives=(ADJECTIVE,)), SLEEP))
        return words[place_of(language, ADJECTIVE, words)]

    assert len({adjective(one, 0), adjective(other, 0), adjective(one, 1)}) == 3
    assert adjective(one, 1) == adjective(other, 1)


def test_verbs_agree_in_gender_where_the_language_has_it() -> None:
    def verbs(language: str) -> int:
        gender = vocabulary(language).gender
        nouns = [next(noun for noun in PEOPLE if gender[noun] == kind) for kind in (0, 1)]
        spoken = [said(language, Clause(Phrase(noun), SLEEP)) for noun in nouns]
        return len({words[place_of(language, SLEEP, words)] for words in spoken})

    assert [verbs(language) for language in LANGUAGES] == [1, 2, 2, 1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_subject_and_object_are_marked_in_any_order(language: str) -> None:
    there = Clause(Phrase(PEOPLE[0]), SEE, object=Phrase(PEOPLE[1]))
    back = Clause(Phrase(PEOPLE[1]), SEE, object=Phrase(PEOPLE[0]))
    sentences = [said(language, each._replace(front=front)) for each in (there, back) for front in (0, 1)]
    assert len({tuple(words) for words in sentences}) == 4
    assert len(set(map(len, sentences))) == 1


def test_subordinate_clauses_come_first_in_tuvo_and_put_their_verb_last_in_marn() -> None:
    both = Sentence(Clause(Phrase(PEOPLE[0]), SLEEP), meaning.BECAUSE, clause)
    tuvo, marn = ([w.strip(",.").lower() for w in grammar(name).sentence(both).split()] for name in ("tuvo", "marn"))
    assert place_of("tuvo", SEE, tuvo) < place_of("tuvo", SLEEP, tuvo) == len(tuvo) - 1
    assert place_of("marn", SLEEP, marn) < place_of("marn", SEE, marn) == len(marn) - 1


def test_a_pronoun_takes_the_gender_of_the_noun_it_stands_for_in_each_language() -> None:
    pair = next(
        (one, other)
        for one in PEOPLE
        for other in PEOPLE
        if vocabulary("marn").gender[one] == vocabulary("marn").gender[other]
        and vocabulary("tuvo").gender[one] != vocabulary("tuvo").gender[other]
    )
    clauses = [Clause(meaning.pronoun(Phrase(noun)), SLEEP) for noun in pair]
    assert said("marn", clauses[0]) == said("marn", clauses[1])
    assert said("tuvo", clauses[0]) != said("tuvo", clauses[1])
