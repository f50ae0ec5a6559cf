"""Splits are determined by the words of a text."""

from __future__ import annotations

from collections import Counter

from lamina.data.synthetic.chance import chance, pick
from lamina.data.synthetic.lexicon import lexicon, split_of


def test_order_synonyms_and_homographs_do_not_change_the_split() -> None:
    draw, words = chance("test"), lexicon().words
    splits: Counter[str] = Counter()
    for _ in range(2000):
        chosen = [pick(draw, words) for _ in range(6)]
        families = [[other.id for other in words if other.root == word.root] for word in chosen[:2]]
        alike = [family[-1 - family.index(word.id)] for family, word in zip(families, chosen[:2], strict=True)]
        split = split_of(word.id for word in chosen)
        assert split_of([*(word.id for word in chosen[:1:-1]), *alike]) == split
        splits[split] += 1
    assert splits["train"] > 1650
    assert 80 < splits["valid"] < 175
    assert 80 < splits["test"] < 175
