"""Documents on a topic, with a cast that comes back as nouns, names and pronouns: text to model, masked or not."""

from __future__ import annotations

from collections.abc import Iterator

from lamina.data.synthetic.chance import Draw, chance, pick
from lamina.data.synthetic.composer import Composer
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.lexicon import TOPICS
from lamina.data.synthetic.meaning import Phrase, Sentence, again, content_words, pronoun
from lamina.data.synthetic.splits import check_split, split_of

CAST = (0, 0, 0, 1, 1, 2)
"""Who a sentence is about: mostly the first of the cast."""


def running_text(split: str, count: int, *, seed: int = 0, language: str = "marn") -> Iterator[str]:
    """`count` documents of two to five paragraphs, which `\\n` separates. No sentence occurs in two splits."""
    check_split(split)
    say, draw = grammar(language).sentence, chance("running text", split, seed)
    for _ in range(count):
        document = _Document(draw, split)
        yield "\n".join(" ".join(map(say, document.paragraph())) for _ in range(2 + int(draw() * 4)))


class _Document:
    """Draws sentences and remembers who has been spoken of."""

    def __init__(self, draw: Draw, split: str) -> None:
        self.draw, self.split = draw, split
        self.composer = Composer(draw, topic=int(draw() * TOPICS))
        self.cast = [self.composer.character(draw() < 0.7) for _ in range(1 + max(CAST))]
        self.known: list[Phrase] = []
        self.last_subject: Phrase | None = None

    def paragraph(self) -> list[Sentence]:
        """A paragraph begins with nobody in mind, so its first sentence has no pronoun to resolve."""
        self.last_subject = None
        return [self._sentence() for _ in range(3 + int(self.draw() * 4))]

    def _sentence(self) -> Sentence:
        character = pick(self.draw, CAST) if self.draw() < 0.65 else None
        mention = None if character is None else self._mention(self.cast[character])
        sentence = self.composer.sentence(mention)
        while split_of(content_words(sentence)) != self.split:
            sentence = self.composer.sentence(mention)
        if character is not None and self.cast[character] not in self.known:
            self.known.append(self.cast[character])
        self.last_subject = pronoun((sentence.second or sentence.first).subject)
        return sentence

    def _mention(self, character: Phrase) -> Phrase:
        """In full at first, then by the bare noun; by a pronoun only right after being the subject."""
        if character not in self.known:
            return character
        if pronoun(character) == self.last_subject and self.draw() < 0.7:
            return pronoun(character)
        return again(character)
