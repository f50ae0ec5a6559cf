"""Which split a text belongs to: decided by what it says, so that splits cannot overlap, whatever seeds they use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lamina.data.synthetic.lexicon import lexicon
from lamina.errors import unknown

SPLITS = ("train", "valid", "test")


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)


def split_of(words: Iterable[int]) -> str:
    """The split of every text with these content words.

    Order, inflection and the choice among synonyms do not count, so texts of different splits differ in at least one
    word, in every language. One text in sixteen is for validation, one in sixteen for the test.
    """
    root = lexicon().root
    key = ",".join(map(str, sorted([root[word] for word in words])))
    bucket = hashlib.blake2b(key.encode(), digest_size=1).digest()[0] % 16
    return "valid" if bucket == 14 else "test" if bucket == 15 else "train"
