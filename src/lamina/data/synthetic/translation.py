"""The same sentences in two of the languages: the embedded counterpart of a parallel corpus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lamina.data.synthetic.chance import chance
from lamina.data.synthetic.composer import Composer
from lamina.data.synthetic.grammar import grammar
from lamina.data.synthetic.meaning import Sentence, content_words
from lamina.data.synthetic.splits import check_split, split_of

SHORT_COMMONEST = 24


def translation_pairs(
    split: str, count: int, *, seed: int = 0, source: str = "marn", target: str = "tuvo", short: bool = False
) -> Iterator[tuple[str, str]]:
    """`count` pairs of sentences, each the only translation of the other as far as tests have found.

    Short ones are single clauses in a few dozen words: what a small model learns to translate in minutes.
    """
    check_split(split)
    say_source, say_target = grammar(source).sentence, grammar(target).sentence
    for sentence in islice(_sentences(split, seed, short), count):
        yield say_source(sentence), say_target(sentence)


def _sentences(split: str, seed: int, short: bool) -> Iterator[Sentence]:
    """All sentences of a split, without end. Languages do not matter here: a meaning is in one split in all of them."""
    draw = chance("translation", split, seed)
    compose = Composer(draw, commonest=SHORT_COMMONEST).short_sentence if short else Composer(draw).sentence
    while True:
        sentence = compose()
        if split_of(content_words(sentence)) == split:
            yield sentence
