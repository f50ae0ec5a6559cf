"""The forms of words in each language."""

from __future__ import annotations

from itertools import combinations

import pytest

from lamina.data.synthetic import (
    LANGUAGES,
)
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.vocabulary import vocabulary


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_form_belongs_to_two_words(language: str) -> None:
    owner: dict[str, int] = {}
    for word, forms in zip(lexicon().words, vocabulary(language).forms, strict=True):
        for form in forms:
            assert owner.setdefault(form.lower(), word.root) == word.root
    words = vocabulary(language)
    particles = [words.negation, words.question, words.complementiser, words.relativiser, *words.links[1:]]
    declined = [form for forms in (*words.determiners.values(), words.relatives) for form in forms]
    function_words = particles + list(dict.fromkeys(declined))
    assert len(set(function_words)) == len(function_words)
    assert not set(function_words) & set(owner)


def test_every_language_has_its_own_sounds() -> None:
    def letters(language: str) -> set[str]:
        return {letter for forms in vocabulary(language).forms for form in forms for letter in form.lower()}

    for one, other in combinations(LANGUAGES, 2):
        assert len(letters(one) - letters(other)) >= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_homographs_are_written_alike_in_one_language_only(language: str) -> None:
    pairs = [word for word in lexicon().words if word.homograph_in == language]
    assert len({word.kind for word in pairs}) == 3
    for word in pairs:
        for name in LANGUAGES:
            alike = vocabulary(name).forms[word.id] == vocabulary(name).forms[word.root]
            assert alike == (name == language)
