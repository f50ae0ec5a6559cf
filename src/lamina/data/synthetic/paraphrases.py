"""Pairs of sentences that say the same or do not, such that counting words does not tell which.

The second sentence is always rearranged. In one pair of three it has exactly the words of the first: if they do not say
the same, two nouns or adjectives changed places. In the others, words are replaced, by synonyms or by other words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice

from lamina.data.synthetic.chance import chance, fair_labels, pick
from lamina.data.synthetic.composer import COMPLEMENTED, Composer
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
        make = _exchange if draw() < 0.33 else _replace
        while (pair := make(composer, speaker, split, bool(label))) is None:
            pass
        yield speaker.sentence(pair[0]), speaker.sentence(pair[1]), label


Pair = tuple[Sentence, Sentence] | None


def _exchange(composer: Composer, speaker: Grammar, split: str, same: bool) -> Pair:
    """A clause in which two words could change places unnoticed by who only counts words."""
    first, second = _two_orders(composer, split)
    for one, other in combinations(_movable_words(first), 2):
        exchanged = reworded(second, {one: other, other: one})
        if _interchangeable(one, other, speaker) and _counts(speaker, exchanged) == _counts(speaker, second):
            return first, second if same else exchanged
    return None


def _replace(composer: Composer, speaker: Grammar, split: str, same: bool) -> Pair:
    """A clause of which words are replaced: all that have synonyms, by these, or by words that are not synonyms.

    Both the word and its replacement are any of four, two times two synonyms, with the same chances whether they are
    synonyms of each other or not: neither of them alone tells.
    """
    draw, quartets = composer.draw, _quartets(speaker.language.name)
    first, second = _two_orders(composer, split)
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for word in content_words(first):
        if word in quartets:
            synonyms, others = quartets[word] if draw() < 0.5 else quartets[word][::-1]
            place = int(draw() < 0.5)
            before[word] = synonyms[place]
            after[word] = synonyms[1 - place] if same else pick(draw, others)
    first, second = reworded(first, before), reworded(second, after)
    fits = split_of(content_words(first)) == split == split_of(content_words(second))
    return (first, second) if before and fits else None


def _two_orders(composer: Composer, split: str) -> tuple[Sentence, Sentence]:
    """A clause of the split that can be said in two ways, and both."""
    while True:
        sentence = Sentence(composer.clause(most=COMPLEMENTED))
        if split_of(content_words(sentence)) == split:
            other = rearranged(sentence, composer.draw)
            if other != sentence:
                return sentence, other


def _movable_words(sentence: Sentence) -> list[int]:
    """Adjectives, and the nouns that mean the same beside any verb, each once."""
    words = (lexicon().words[word] for word in content_words(sentence))
    return list(dict.fromkeys(word.id for word in words if word.kind in ("adjective", "noun") and word.side is None))


def _interchangeable(one: int, other: int, speaker: Grammar) -> bool:
    first, second = lexicon().words[one], lexicon().words[other]
    return (first.kind, first.animate, speaker.gender[one]) == (second.kind, second.animate, speaker.gender[other])


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
