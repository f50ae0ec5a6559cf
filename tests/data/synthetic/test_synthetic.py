"""The embedded languages: always the same, and without overlap between splits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations, islice
from typing import Any

import pytest

from lamina.data.synthetic import (
    SPLITS,
    entailment_pairs,
    headline_pairs,
    paraphrase_pairs,
    running_text,
    translation_pairs,
)
from lamina.errors import UserError
from support.words import words_of

GENERATORS: dict[str, Callable[..., Iterator[Any]]] = {
    "translation": translation_pairs,
    "headlines": headline_pairs,
    "running text": running_text,
    "paraphrases": paraphrase_pairs,
    "entailments": entailment_pairs,
}


# Hashes of the first thousand of each. A release that changes them must say so: all results on them change too.
GOLDEN = {
    "translation": "bfe3b75c3c5db00aaf5792b96a64475b39b0b6940eea33da0070b8f344657914",
    "headlines": "a213197502386630badb847ada02a1e3e0546db63f20c126edb2a5ffc60c33e2",
    "running text": "24936af5212cc410b152ac2d051741b42ea6ea8049b4eb5d38db74ceca38c73c",
    "paraphrases": "6c64e6ab84efc3a91ca69c46abbdea3432d15b1f933f0795121a629be199ff70",
    "entailments": "edd85e3d2bdb64e328e075e3f386f29e396d686eb1c56bcfef758e6750782ee9",
}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_languages_are_the_same_everywhere(name: str) -> None:
    digest = hashlib.sha256()
    for example in GENERATORS[name]("train", 1000):
        digest.update(repr(example).encode())
    assert digest.hexdigest() == GOLDEN[name]


def test_they_do_not_depend_on_the_order_of_sets() -> None:
    program = (
        "from lamina.data.synthetic import *; print(list(translation_pairs('test', 20)), *paraphrase_pairs('test', 5))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


@pytest.mark.parametrize("name", GENERATORS)
def test_generation_is_lazy_and_seeds_matter(name: str) -> None:
    generate = GENERATORS[name]
    few = list(generate("train", 5))
    assert list(islice(generate("train", 10**12), 5)) == few
    assert list(generate("train", 5, seed=1)) != few
    assert list(generate("valid", 5)) != few
    assert list(generate("test", 0)) == []


@pytest.mark.parametrize("name", GENERATORS)
def test_a_wrong_split_or_language_is_named(name: str) -> None:
    with pytest.raises(UserError, match="did you mean 'valid'"):
        next(GENERATORS[name]("validation", 1))
    keyword = "target" if name == "translation" else "language"
    with pytest.raises(UserError, match="did you mean 'tuvo'"):
        next(GENERATORS[name]("train", 1, **{keyword: "tuvu"}))


PIECES: dict[str, Callable[[Any], list[str]]] = {
    "translation": list,
    "headlines": list,
    "running text": lambda document: [sentence for line in document.split("\n") for sentence in line.split(". ")],
    "paraphrases": lambda triple: list(triple[:2]),
    "entailments": lambda triple: [triple[0]],
}


@pytest.mark.parametrize("name", GENERATORS)
def test_no_text_is_in_two_splits_whatever_the_seeds(name: str) -> None:
    """Words in any order: not even a rearranged sentence of one split is in another."""
    counts = {"train": 200 if name == "running text" else 2500, "valid": 150, "test": 150}
    seen = {
        split: {
            " ".join(sorted(words_of(piece)))
            for example in GENERATORS[name](split, counts[split], seed=number)
            for piece in PIECES[name](example)
        }
        for number, split in enumerate(SPLITS)
    }
    assert all(seen.values())
    for one, other in combinations(SPLITS, 2):
        assert not seen[one] & seen[other]
