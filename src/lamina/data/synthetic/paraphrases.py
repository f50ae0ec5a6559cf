"""Pairs of sentences that say the same or do not, such that counting words does not tell which.

The second sentence is always rearranged. In half of the pairs it has exactly the words of the first: those that do not
say the same had two nouns change places. In the other half one word is replaced, by its synonym or by another word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice

from lamina.data.synthetic.chance import chance, fair_labels, pick
from lamina.data.synthetic.composer import Composer
from lamina.data.synthetic.grammar import Grammar, grammar
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.meaning import Sentence, content_words
from lamina.data.synthetic.rewrite import rearranged, reworded
from lamina.data.synthetic.splits import check_split, split_of


def paraphrase_pairs(
    split: str, count: int, *, seed: int = 0, language: str = "marn"
) -> Iterator[tuple[str, str, int]]:
    """`count` triples of two sentences and 1 if they say the same, else 0. No sentence occurs in two splits."""
    check_split(split)
    speaker, draw = grammar(language), chance("paraphrases", split, seed)
    composer = Composer(draw)
    for label in islice(fair_labels(draw), count):
        make = _exchange if draw() < 0.5 else _replace
        while (pair := make(composer, speaker, split, bool(label))) is None:
            pass
        yield speaker.sentence(pair[0]), speaker.sentence(pair[1]), label


def _exchange(composer: Composer, speaker: Grammar, split: str, same: bool) -> tuple[Sentence, Sentence] | None:
    """A sentence in which two nouns could change places unnoticed by who only counts words, and another order of it."""
    first, second = _two_orders(composer, split)
    for one, other in combinations(_free_nouns(first), 2):
        exchanged = reworded(second, {one: other, other: one})
        if _interchangeable(one, other, speaker) and _counts(speaker, exchanged) == _counts(speaker, second):
            return first, second if same else exchanged
    return None


def _replace(composer: Composer, speaker: Grammar, split: str, same: bool) -> tuple[Sentence, Sentence] | None:
    """A sentence and another order of it in which one word is replaced.

    Both the word and its replacement are any of four, two times two synonyms, with the same chances whether they are
    synonyms of each other or not: neither of them alone tells.
    """
    draw, quartets = composer.draw, _quartets(speaker.language.name)
    first, second = _two_orders(composer, split)
    choices = [word for word in content_words(first) if word in quartets]
    if not choices:
        return None
    word = pick(draw, choices)
    synonyms, others = quartets[word] if draw() < 0.5 else quartets[word][::-1]
    place = int(draw() < 0.5)
    replacement = synonyms[1 - place] if same else pick(draw, others)
    first, second = reworded(first, {word: synonyms[place]}), reworded(second, {word: replacement})
    fits = split_of(content_words(first)) == split == split_of(content_words(second))
    return (first, second) if fits else None


def _two_orders(composer: Composer, split: str) -> tuple[Sentence, Sentence]:
    """A statement of the split that can be said in two ways, and both."""
    while True:
        sentence = composer.sentence()
        if split_of(content_words(sentence)) == split and not sentence.question:
            other = rearranged(sentence, composer.draw)
            if other != sentence:
                return sentence, other


def _free_nouns(sentence: Sentence) -> list[int]:
    """The nouns that mean the same beside any verb, each once."""
    words = (lexicon().words[word] for word in content_words(sentence))
    return list(dict.fromkeys(word.id for word in words if word.kind == "noun" and word.side is None))


def _interchangeable(one: int, other: int, speaker: Grammar) -> bool:
    animate, gender = lexicon().animate, speaker.gender
    return animate[one] == animate[other] and gender[one] == gender[other]


def _counts(speaker: Grammar, sentence: Sentence) -> list[str]:
    """The words of a sentence in no order: all that a bag of words knows."""
    return sorted(word.strip(",.").lower() for word in speaker.sentence(sentence).split())


@cache
def _quartets(language: str) -> dict[int, tuple[tuple[int, int], tuple[int, int]]]:
    """By each of its words: two pairs of synonyms of the same kind and gender, so that all four fit where one does."""
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
