"""Learning a vocabulary: exact sizes, the same result every time, and a bounded sample of text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.tokenizer import UNK, Tokenizer
from lamina.data.vocabulary import TokenizerKind, VocabularyOptions, sample_evenly
from lamina.errors import UserError
from support.small_tokenizers import CORPUS, train


def test_sizes_are_exact_and_too_small_ones_refused() -> None:
    assert len(Tokenizer.train(CORPUS, VocabularyOptions(size=300))) == 300
    assert len(Tokenizer.train(CORPUS, VocabularyOptions(kind="wordpiece", size=560))) == 560
    for kind, least in (("bpe", 263), ("wordpiece", 519)):
        assert len(train(kind, least)) == least  # type: ignore[arg-type]
        with pytest.raises(UserError, match=f"at least {least}"):
            train(kind, least - 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word"])
def test_training_is_repeatable_on_any_number_of_threads(kind: TokenizerKind) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from support.small_tokenizers import train\n"
        "print(train(sys.argv[2]).sha256)"
    )
    hashes = {train(kind).sha256}
    for threads in ("1", "3"):
        environment = os.environ | {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        command = [sys.executable, "-c", program, str(Path(__file__).parents[1]), kind]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1


def test_a_unigram_vocabulary_is_the_same_every_time() -> None:
    """The library's trainer gives some characters another score each time; the sentences have many rare ones."""
    texts = [f"sentence {number} with the character {chr(0x4E00 + number)}" for number in range(60)]
    hashes = {Tokenizer.train(texts, VocabularyOptions(kind="unigram", size=150)).sha256 for _ in range(4)}
    assert len(hashes) == 1


def test_a_unigram_vocabulary_holds_every_character_and_is_not_larger_than_asked_for() -> None:
    characters = {letter for line in CORPUS for letter in line if letter != " "}
    tokenizer = Tokenizer.train(CORPUS, VocabularyOptions(kind="unigram", size=100))
    assert len(tokenizer) <= 100
    assert UNK not in tokenizer.encode(" ".join(sorted(characters)))
    with pytest.raises(UserError, match="tokenizer.size = 30 is too small: unigram needs a token for every char"):
        Tokenizer.train(CORPUS, VocabularyOptions(kind="unigram", size=30))


def test_a_frequency_without_effect_is_refused() -> None:
    with pytest.raises(UserError, match="min_frequency has no effect on a unigram vocabulary"):
        VocabularyOptions.read({"kind": "unigram", "min_frequency": 2}, "test")


@given(st.integers(0, 300), st.integers(1, 50), st.integers(10, 500))
def test_a_sample_is_bounded_even_and_whole(count: int, length: int, bound: int) -> None:
    stream = [(f"s{number}".ljust(length, "x"), f"t{number}".ljust(length, "x")) for number in range(count)]
    sample = list(sample_evenly(stream, bound))
    pairs = list(zip(sample[::2], sample[1::2], strict=True))
    assert sum(map(len, sample)) <= max(bound, 2 * max(length, 4))
    places = [stream.index(pair) for pair in pairs]
    steps = set(np.diff(places).tolist())
    assert len(steps) <= 1
    if count:
        assert places[0] == 0
        assert count - places[-1] <= next(iter(steps), count)
    if sum(map(len, (text for pair in stream for text in pair))) <= bound:
        assert len(pairs) == count
