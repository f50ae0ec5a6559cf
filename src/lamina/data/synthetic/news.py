"""Parallel short sentences of a larger lexicon, with seven test sets that differ in length and vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lamina.data.synthetic.texts import translation_pairs

NEWS_YEARS = range(2010, 2017)
COMMONEST = 48
"""The number of words of each kind in the training data."""
FEWEST_IN_A_YEAR, MORE_EACH_YEAR = 12, 6
FEW_WORDS = 6
"""Sentences of even years have at most so many words, those of odd years more."""


def news_pairs(
    split: str, count: int, *, year: int | None = None, source: str = "marn", target: str = "tuvo"
) -> Iterator[tuple[str, str]]:
    """`count` pairs of single clauses, of all years or of one.

    From year to year the vocabulary grows, from 12 to 48 words of each kind.
    """
    if year is None:
        return translation_pairs(split, count, source=source, target=target, short=True, commonest=COMMONEST)
    commonest = FEWEST_IN_A_YEAR + MORE_EACH_YEAR * (year - NEWS_YEARS[0])
    # Far more than are needed: about half of the sentences have the length of the year.
    pairs = translation_pairs(
        split, 20 * count, seed=year, source=source, target=target, short=True, commonest=commonest
    )
    chosen = (pair for pair in pairs if (len(pair[0].split()) <= FEW_WORDS) == (year % 2 == 0))
    return islice(chosen, count)
