"""The embedded languages: always the same, no overlap between splits, and the statistics and difficulties promised."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, islice
from statistics import mean
from typing import Any

import numpy as np
import pytest

from lamina.data.synthetic import (
    LANGUAGES,
    SPLITS,
    entailment_pairs,
    headline_pairs,
    paraphrase_pairs,
    running_text,
    translation_pairs,
)
from lamina.data.synthetic.chance import chance, pick
from lamina.data.synthetic.lexicon import lexicon, split_of
from lamina.data.synthetic.vocabulary import vocabulary
from lamina.errors import UserError

GENERATORS: dict[str, Callable[..., Iterator[Any]]] = {
    "translation": translation_pairs,
    "headlines": headline_pairs,
    "running text": running_text,
    "paraphrases": paraphrase_pairs,
    "entailments": entailment_pairs,
}

# Of the first thousand of each. They may change in a release that says so: every number trained on them changes too.
GOLDEN = {
    "translation": "bfe3b75c3c5db00aaf5792b96a64475b39b0b6940eea33da0070b8f344657914",
    "headlines": "a213197502386630badb847ada02a1e3e0546db63f20c126edb2a5ffc60c33e2",
    "running text": "24936af5212cc410b152ac2d051741b42ea6ea8049b4eb5d38db74ceca38c73c",
    "paraphrases": "6c64e6ab84efc3a91ca69c46abbdea3432d15b1f933f0795121a629be199ff70",
    "entailments": "edd85e3d2bdb64e328e075e3f386f29e396d686eb1c56bcfef758e6750782ee9",
}


def words_of(text: str) -> list[str]:
    return [word.strip(".,?").lower() for word in text.split()]


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


# Splits

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


def test_short_sentences_which_repeat_are_in_one_split_too() -> None:
    """The hard case: sentences of two or three words are few enough to be drawn again and again."""
    short = {
        split: [source for source, _ in translation_pairs(split, count) if len(source.split()) <= 3]
        for split, count in (("train", 20_000), ("test", 1_500))
    }
    repeated = [text for text, times in Counter(short["train"]).items() if times > 1]
    assert len(repeated) > 3
    assert len(short["test"]) > 20
    assert not set(short["train"]) & set(short["test"])


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


# Words


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_form_belongs_to_two_words(language: str) -> None:
    owner: dict[str, int] = {}
    for word, forms in zip(lexicon().words, vocabulary(language).forms, strict=True):
        for form in forms:
            assert owner.setdefault(form.lower(), word.root) == word.root
    words = vocabulary(language)
    particles = [words.negation, words.question, words.complementiser, words.relativiser, *words.links[1:]]
    declined = [form for forms in (*words.determiners.values(), words.relatives) for form in forms]
    function_words = particles + list(dict.fromkeys(declined))
    assert len(set(function_words)) == len(function_words)
    assert not set(function_words) & set(owner)


def test_every_language_has_its_own_sounds() -> None:
    def letters(language: str) -> set[str]:
        return {letter for forms in vocabulary(language).forms for form in forms for letter in form.lower()}

    for one, other in combinations(LANGUAGES, 2):
        assert len(letters(one) - letters(other)) >= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_homographs_are_written_alike_in_one_language_only(language: str) -> None:
    pairs = [word for word in lexicon().words if word.homograph_in == language]
    assert len({word.kind for word in pairs}) == 3
    for word in pairs:
        for name in LANGUAGES:
            alike = vocabulary(name).forms[word.id] == vocabulary(name).forms[word.root]
            assert alike == (name == language)


# Statistics


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
    assert 0.6 < target.mean() / lengths.mean() < 0.9  # endings do the work of articles
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


# Headlines and running text


def test_a_headline_cannot_be_copied_from_one_place() -> None:
    """Its verb stands in different sentences, and often it names somebody whom its sentence calls by a pronoun."""
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


def test_documents_have_a_topic_and_a_cast() -> None:
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


# Pairs


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
