"""Random sentences: the context disambiguates homographs."""

from __future__ import annotations

from lamina.data.synthetic import meaning
from lamina.data.synthetic.chance import chance
from lamina.data.synthetic.composer import Composer
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.meaning import Clause


def test_context_tells_homographs_apart_in_every_sentence_drawn() -> None:
    """A noun with two senses always goes with verbs of its side; a verb with two, with objects of its kind."""
    composer, seen = Composer(chance("homographs")), {"noun": 0, "verb": 0}

    def check(part: Clause) -> None:
        verb = lexicon().words[part.verb]
        phrases = [part.subject, part.object, part.recipient, part.place.phrase if part.place else None]
        for role, phrase in enumerate(phrases):
            spoken = phrase and phrase.determiner != meaning.PRONOUN and part.gap != role
            if phrase and spoken and (side := lexicon().words[phrase.noun].side) is not None:
                assert side == verb.side
                seen["noun"] += 1
            if phrase and phrase.relative:
                check(phrase.relative)
        if part.object:
            assert lexicon().words[part.object.noun].animate == verb.frame.object
            seen["verb"] += verb.id != verb.root and verb.homograph_in is not None
        if part.content:
            check(part.content)

    for _ in range(1500):
        sentence = composer.sentence()
        check(sentence.first)
        if sentence.second:
            check(sentence.second)
    assert min(seen.values()) > 50
