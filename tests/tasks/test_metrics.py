"""The metrics equal the libraries' own numbers on fixed text, and hand-counted ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from lamina.generate.scoring import perplexity
from lamina.tasks.metrics import accuracy, bleu, chrf, f1, f1_macro, f1_micro, rouge

HYPOTHESES = ["The cat sat on the mat.", "It rained all day, again.", "a small house"]
REFERENCES = ["The cat sat on a mat.", "It rained all day again.", "the small houses"]


def test_bleu_and_chrf_are_sacrebleus() -> None:
    ours = bleu(HYPOTHESES, REFERENCES)
    assert ours.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in ours.signature
    assert "case:mixed" in ours.signature
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_bleu_on_tokenised_text_adds_no_tokenisation() -> None:
    ours = bleu(HYPOTHESES, REFERENCES, "bleu-tok")
    assert ours.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize="none", force=True).score
    assert ours.value != bleu(HYPOTHESES, REFERENCES).value
    assert "tok:none" in ours.signature


def test_a_perfect_translation_has_100() -> None:
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert chrf(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert rouge(REFERENCES, REFERENCES) == pytest.approx({"rouge1": 100, "rouge2": 100, "rougeL": 100})


def test_rouge_is_the_mean_of_the_packages_f1() -> None:
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    single = [scorer.score(reference, text) for reference, text in zip(REFERENCES, HYPOTHESES, strict=True)]
    for kind, value in rouge(HYPOTHESES, REFERENCES).items():
        assert value == pytest.approx(100 * sum(score[kind].fmeasure for score in single) / 3)


def test_macro_and_micro_f1_by_hand() -> None:
    predicted, correct = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, 0, 2])
    by_label = [100 * 2 * 1 / 4, 100 * 2 * 1 / 3, 100 * 2 * 2 / 5]
    assert f1_macro(predicted, correct) == pytest.approx(sum(by_label) / 3)
    assert f1_micro(predicted, correct) == pytest.approx(accuracy(predicted, correct)) == pytest.approx(100 * 4 / 6)
    assert f1_macro(np.zeros(0), np.zeros(0)) == f1_micro(np.zeros(0), np.zeros(0)) == 0.0


def test_accuracy_and_f1_by_hand() -> None:
    predicted, correct = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 1])
    assert accuracy(predicted, correct) == 60.0
    precision, recall = 2 / 3, 2 / 3
    assert f1(predicted, correct) == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert f1(np.zeros(3), np.zeros(3)) == 0.0


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_f1_and_accuracy_stay_in_range_and_agree_at_the_ends(pairs: list[tuple[int, int]]) -> None:
    predicted, correct = (np.array(side) for side in zip(*pairs, strict=True))
    assert 0 <= f1(predicted, correct) <= 100
    assert (accuracy(predicted, correct) == 100) == bool((predicted == correct).all())
    if f1(predicted, correct) == 100:
        assert accuracy(predicted, correct) == 100


@given(st.integers(1, 10_000), st.integers(2, 1000))
def test_a_uniform_guess_has_the_perplexity_of_its_vocabulary(count: int, vocabulary: int) -> None:
    assert perplexity(count * math.log(vocabulary), count) == pytest.approx(vocabulary)


def test_perplexity_of_a_diverged_model_is_a_number() -> None:
    assert math.isfinite(perplexity(1e9, 10))
    assert perplexity(1.0, 0) == math.inf
