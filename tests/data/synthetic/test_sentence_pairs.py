"""Paraphrases and entailments: balanced labels that bags of words do not reveal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import mean

import numpy as np
import pytest

from lamina.data.synthetic import (
    entailment_pairs,
    paraphrase_pairs,
)
from lamina.data.synthetic.vocabulary import vocabulary
from support.words import words_of


def bag_of_words_accuracy(triples: list[tuple[str, str, int]]) -> float:
    """Ridge regression on the word counts of both texts, their difference, their overlap and their lengths."""
    index: dict[str, int] = {}
    counts = np.zeros((2, len(triples), 4000), np.float32)
    for number, (first, second, _) in enumerate(triples):
        for side, text in enumerate((first, second)):
            for word in words_of(text):
                counts[side, number, index.setdefault(word, len(index))] += 1
    first, second = counts
    lengths = counts.sum(2).T
    features = np.hstack([first, second, np.abs(first - second), np.minimum(first, second), lengths])
    features = features[:, features.std(0) > 0]
    features = (features - features.mean(0)) / features.std(0)
    labels = np.array([2 * label - 1 for *_, label in triples], np.float32)
    train = len(triples) * 2 // 3
    kernel = features @ features[:train].T
    weights = np.linalg.solve(kernel[:train] + 1000 * np.eye(train, dtype=np.float32), labels[:train])
    return float(np.mean(np.sign(kernel[train:] @ weights) == labels[train:]))


@pytest.mark.parametrize("generate", [paraphrase_pairs, entailment_pairs])
def test_counting_words_does_not_solve_the_pairs(generate: Callable[..., Iterator[tuple[str, str, int]]]) -> None:
    accuracy = bag_of_words_accuracy(list(generate("train", 2400)))
    assert 0.45 < accuracy < 0.55  # 800 are tested: one standard deviation is 0.018


def test_the_baseline_solves_what_counting_words_can_solve() -> None:
    triples = list(paraphrase_pairs("train", 1200))
    assert bag_of_words_accuracy([(a, b + " and" * label, label) for a, b, label in triples]) > 0.75


@pytest.mark.parametrize("generate", [paraphrase_pairs, entailment_pairs])
def test_labels_are_balanced_and_lengths_tell_nothing(
    generate: Callable[..., Iterator[tuple[str, str, int]]],
) -> None:
    triples = list(generate("train", 2000))
    assert sum(label for *_, label in triples) == 1000
    for measure in (lambda a, b: len(a.split()), lambda a, b: len(b.split()), lambda a, b: len(a) - len(b)):
        by_label = [[measure(a, b) for a, b, label in triples if label == wanted] for wanted in (0, 1)]
        spread = np.std(by_label[0] + by_label[1])
        assert abs(mean(by_label[0]) - mean(by_label[1])) < 0.12 * spread


def test_a_third_of_the_paraphrases_differ_in_order_only_with_either_label() -> None:
    alike: Counter[int] = Counter()
    for first, second, label in paraphrase_pairs("train", 1000):
        assert first != second
        alike[label] += sorted(words_of(first)) == sorted(words_of(second))
    assert 125 < alike[0] < 205
    assert 125 < alike[1] < 205


def test_every_word_of_a_hypothesis_is_in_its_premise_up_to_articles() -> None:
    content = {form.lower() for forms in vocabulary("marn").forms for form in forms}
    for premise, hypothesis, _ in entailment_pairs("train", 500):
        assert {word for word in words_of(hypothesis) if word in content} <= set(words_of(premise))
