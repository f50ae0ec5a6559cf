"""Parallel sentences, running text and headlines: their statistics and difficulty."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import numpy as np
import pytest

from lamina.data.synthetic import (
    headline_pairs,
    running_text,
    translation_pairs,
)
from lamina.data.synthetic.lexicon import lexicon
from lamina.data.synthetic.vocabulary import vocabulary
from support.words import words_of


def test_short_sentences_which_repeat_are_in_one_split_too() -> None:
    """Sentences of two or three words are so few that they are drawn repeatedly."""
    short = {
        split: [source for source, _ in translation_pairs(split, count) if len(source.split()) <= 3]
        for split, count in (("train", 20_000), ("test", 1_500))
    }
    repeated = [text for text, times in Counter(short["train"]).items() if times > 1]
    assert len(repeated) > 3
    assert len(short["test"]) > 20
    assert not set(short["train"]) & set(short["test"])


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(translation_pairs("train", 12_000))


def test_sentences_are_as_long_as_real_ones(pairs: list[tuple[str, str]]) -> None:
    lengths = np.array([len(source.split()) for source, _ in pairs])
    assert 12 <= lengths.mean() <= 16
    assert 6 <= lengths.std() <= 9
    assert 30 <= np.percentile(lengths, 99) <= 42
    assert lengths.min() <= 3
    assert lengths.max() <= 65
    target = np.array([len(target.split()) for _, target in pairs])
    assert 0.6 < target.mean() / lengths.mean() < 0.9  # endings replace articles
    assert np.corrcoef(lengths, target)[0, 1] > 0.9


@pytest.mark.parametrize("side", [0, 1])
def test_words_follow_zipfs_law(pairs: list[tuple[str, str]], side: int) -> None:
    counts = Counter(word for pair in pairs for word in words_of(pair[side]))
    frequencies = np.array([count for _, count in counts.most_common(1000)], float)
    ranks = np.arange(1, len(frequencies) + 1)
    slope = np.polyfit(np.log(ranks[10:]), np.log(frequencies[10:]), 1)[0]
    assert -1.5 < slope < -0.9
    tokens = sum(counts.values())
    assert 0.005 < len(counts) / tokens < 0.05
    assert (1000, 3000)[side] < len(counts) < (2500, 6000)[side]
    assert frequencies[0] / tokens < 0.05


@pytest.mark.parametrize(("source", "target"), [("marn", "tuvo"), ("tuvo", "selu"), ("noric", "marn")])
def test_a_sentence_has_one_translation_in_either_direction(source: str, target: str) -> None:
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    for one, other in translation_pairs("train", 5000, source=source, target=target):
        assert there.setdefault(one, other) == other
        assert back.setdefault(other, one) == one


def test_sentences_look_like_sentences(pairs: list[tuple[str, str]]) -> None:
    for text in (text for pair in pairs[:2000] for text in pair):
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert not any(bad in text for bad in ("  ", ",,", ",.", ",?", " ,"))


def test_a_headline_cannot_be_copied_from_one_place() -> None:
    """Its verb is in different sentences, and it often names a character that the sentence refers to by a pronoun."""
    verbs = {form: word.root for word in lexicon().of_kind("verb") for form in vocabulary("marn").forms[word.id]}
    where: Counter[str] = Counter()
    examples = list(headline_pairs("train", 500))
    for paragraph, headline in examples:
        verb = next(verbs[word] for word in words_of(headline) if word in verbs)
        sentences = paragraph.split(". ")
        holding = [number for number, text in enumerate(sentences) if verb in {verbs.get(w) for w in words_of(text)}]
        assert holding
        where["first"] += holding == [0]
        where["last"] += holding == [len(sentences) - 1]
        where["subject nearby"] += words_of(headline)[0] in words_of(sentences[holding[-1]])
    assert where["first"] < 20
    assert 150 < where["last"] < 350
    assert where["subject nearby"] < 400
    assert 3.5 < mean(len(headline.split()) for _, headline in examples) < 7
    assert 25 < mean(len(paragraph.split()) for paragraph, _ in examples) < 45


def test_documents_have_a_topic_and_recurring_characters() -> None:
    """The two halves of a document share more words than halves of different documents do."""
    names = {
        forms[0].lower()
        for word, forms in zip(lexicon().words, vocabulary("marn").forms, strict=True)
        if word.kind in ("noun", "name")
    }
    halves = []
    for document in running_text("train", 120):
        words = words_of(document)
        halves.append(
            [{w for w in part if w in names} for part in (words[: len(words) // 2], words[len(words) // 2 :])]
        )
    own = mean(len(first & second) for first, second in halves)
    foreign = mean(len(halves[i][0] & halves[i - 1][1]) for i in range(len(halves)))
    assert own > 1.3 * foreign
    pronouns = set(vocabulary("marn").determiners[4])
    texts = list(running_text("train", 50))
    assert mean(sum(word in pronouns for word in words_of(text)) / len(text.split()) for text in texts) > 0.015
