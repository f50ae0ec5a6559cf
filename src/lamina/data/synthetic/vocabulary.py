"""The words of one language in all their forms, made from its sounds.

Content words are a stem and endings; determiners, pronouns and relative pronouns are an onset and the same endings.
Forms of different words never coincide, except for the homographs of the lexicon. All forms are in tables, which the
grammar indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import chance, pick
from lamina.data.synthetic.language import Language, language_named
from lamina.data.synthetic.lexicon import Word, lexicon

CLASSES = 4
"""Agreement classes: up to three genders, and the plural, which has no gender."""
PLURAL_CLASS = CLASSES - 1
CASES, NUMBERS, TENSES, DETERMINERS = 3, 2, 3, 4
INFINITIVE = TENSES * CLASSES


class LanguageVocabulary:
    """Tables of forms. The indices are sums over the constants of `meaning`:

    nouns `6 determiner + 3 number + case`; adjectives and auxiliaries `class`; verbs `4 tense + class`, then the
    infinitive; determiners, pronouns and relative pronouns `3 class + case`; adverbs and adpositions 0.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self._draw = chance("vocabulary", language.name)
        self._onsets, self._vowels = language.onsets.split(), language.vowels.split()
        self._codas = [coda.replace("-", "") for coda in language.codas.split()]
        self._taken: set[str] = {""}
        self._draw_endings()
        self._draw_function_words()
        self.gender = self._draw_genders()
        self.forms = self._draw_content_words()

    def _draw_endings(self) -> None:
        closed = [coda for coda in self._codas if coda]
        endings: list[str] = []
        while len(endings) < 20:
            ending = pick(self._draw, self._vowels) + pick(self._draw, closed)
            if ending not in endings:
                endings.append(ending)
        take = iter(endings).__next__
        self._plural, self._definite, self._infinitive = take(), take(), take()
        self._cases = ["", take(), take()]
        self._classes = [take() for _ in range(CLASSES)]
        self._tenses = [take() for _ in range(TENSES)]
        self._verb_plural = take()
        self._verb_classes = [take() for _ in range(CLASSES)]

    def _draw_function_words(self) -> None:
        onsets = iter(self._shuffled(self._onsets))
        self.determiners = {kind: self._decline(next(onsets)) for kind in (meaning.DEMONSTRATIVE, meaning.PRONOUN)}
        if self.language.articles:
            self.determiners |= {kind: self._decline(next(onsets)) for kind in (meaning.INDEFINITE, meaning.DEFINITE)}
        self.relatives = self._decline(next(onsets))
        auxiliary = next(onsets) + self._tenses[meaning.FUTURE]
        self.auxiliaries = [auxiliary + self._verb_class(kind) for kind in range(CLASSES)]
        self._taken.update(self.auxiliaries)
        self.negation, self.question, self.complementiser, self.relativiser = (self._word(1) for _ in range(4))
        self.links = ["", *(self._word(1) for _ in range(meaning.ALTHOUGH))]

    def _draw_genders(self) -> list[int]:
        """A random gender for each family of nouns; the form of a noun does not show it."""
        by_family: dict[int, int] = {}
        for word in lexicon().words:
            if word.kind in ("noun", "name") and word.family not in by_family:
                by_family[word.family] = int(self._draw() * self.language.genders)
        return [by_family.get(word.family, 0) for word in lexicon().words]

    def _draw_content_words(self) -> list[tuple[str, ...]]:
        inflect: dict[str, Callable[[str], list[str]]] = {
            "noun": self._noun_forms,
            "name": lambda stem: self._noun_forms(stem.capitalize()),
            "verb": self._verb_forms,
            "adjective": lambda stem: [stem + ending for ending in self._classes],
        }
        forms: list[tuple[str, ...]] = []
        for word in lexicon().words:
            if word.homograph_in == self.language.name:
                forms.append(forms[word.root])
            else:
                forms.append(self._new_forms(word, inflect.get(word.kind, lambda stem: [stem])))
        return forms

    def _new_forms(self, word: Word, inflect: Callable[[str], list[str]]) -> tuple[str, ...]:
        """Forms that no other word has, ignoring case since sentences begin with capitals; frequent words are
        shorter."""
        syllables = 1 + (word.rank >= 12) + (word.rank >= 150)
        while True:
            forms = inflect(self._stem(syllables))
            spelled = [form.lower() for form in forms]
            if self._taken.isdisjoint(spelled):
                self._taken.update(spelled)
                return tuple(forms)

    def _noun_forms(self, stem: str) -> list[str]:
        return [
            stem + ("", self._plural)[number] + self._definiteness(determiner) + self._noun_case(determiner, case)
            for determiner in range(DETERMINERS)
            for number in range(NUMBERS)
            for case in range(CASES)
        ]

    def _definiteness(self, determiner: int) -> str:
        return self._definite if determiner == meaning.DEFINITE and not self.language.articles else ""

    def _noun_case(self, determiner: int, case: int) -> str:
        """The case ending of a noun; none if an article carries the case."""
        return "" if self.language.articles and determiner != meaning.BARE else self._cases[case]

    def _verb_forms(self, stem: str) -> list[str]:
        finite = [stem + tense + self._verb_class(kind) for tense in self._tenses for kind in range(CLASSES)]
        return [*finite, stem + self._infinitive]

    def _verb_class(self, kind: int) -> str:
        if self.language.gendered_verbs:
            return self._verb_classes[kind]
        return self._verb_plural if kind == PLURAL_CLASS else ""

    def _decline(self, onset: str) -> list[str]:
        forms = [onset + ending + case for ending in self._classes for case in self._cases]
        self._taken.update(forms)
        return forms

    def _word(self, syllables: int) -> str:
        """A new word without inflection."""
        while (word := self._stem(syllables)) in self._taken:
            pass
        self._taken.add(word)
        return word

    def _stem(self, syllables: int) -> str:
        def syllable(codas: list[str]) -> str:
            return pick(self._draw, self._onsets) + pick(self._draw, self._vowels) + pick(self._draw, codas)

        closed = [coda for coda in self._codas if coda]
        return "".join(syllable(self._codas) for _ in range(syllables - 1)) + syllable(closed)

    def _shuffled(self, things: list[str]) -> list[str]:
        return [thing for _, thing in sorted((self._draw(), thing) for thing in things)]


@cache
def vocabulary(name: str) -> LanguageVocabulary:
    """The vocabulary of the language of that name."""
    return LanguageVocabulary(language_named(name))
