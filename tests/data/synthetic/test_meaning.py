"""Content words."""

from __future__ import annotations

from lamina.data.synthetic.chance import chance
from lamina.data.synthetic.composer import Composer
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.meaning import content_words
from lamina.data.synthetic.vocabulary import vocabulary


def test_content_words_are_those_that_are_written() -> None:
    roots = {form.lower(): word.root for word in lexicon().words for form in vocabulary("tuvo").forms[word.id]}
    prepositions = {word.root for word in lexicon().of_kind("preposition")}
    composer = Composer(chance("content words"))
    for _ in range(500):
        sentence = composer.sentence()
        written = [roots.get(word.strip(",.?").lower()) for word in grammar("tuvo").sentence(sentence).split()]
        expected = sorted(lexicon().words[word].root for word in content_words(sentence))
        assert sorted(root for root in written if root is not None and root not in prepositions) == expected
