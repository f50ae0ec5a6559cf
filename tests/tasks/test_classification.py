"""Classification: the two sentences as one sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lamina.data.tokenizer import CLS, SEP
from support.small_tasks import ORDER, rows, task_of


def test_classification_joins_the_two_sentences(folder: Path) -> None:
    task = task_of("classification", folder)
    batch = task.batches("train", ORDER).batch(0, 0)
    inputs = task.inputs(batch)
    segments = rows(inputs.tensors["segments"], inputs.lengths["lengths"])
    whole = rows(inputs.tensors["tokens"], inputs.lengths["lengths"])
    parts = zip(batch["first"].sequences(), batch["second"].sequences(), whole, segments, strict=True)
    for first, second, row, segment in parts:
        assert row == [CLS, *first, SEP, *second, SEP]
        assert segment == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert inputs.labels.tolist() == batch["label"].ids.tolist()
    assert set(task.store.labels) == {"no", "yes"}


def test_a_classifier_that_beats_the_majority_class_has_not_failed(folder: Path) -> None:
    task = task_of("classification", folder)
    counts = np.bincount(task.store["valid"].gather("label", np.arange(len(task.store["valid"])))[0])
    majority = 100 * counts.max() / counts.sum()
    unigram = task.unigram_nll("valid")
    assert task.describe_failure("valid", unigram - 0.1, dict) == ""
    assert task.describe_failure("valid", unigram + 0.1, lambda: {"accuracy": majority + 1}) == ""
    reason = task.describe_failure("valid", unigram + 0.1, lambda: {"accuracy": majority})
    assert "not above the majority class" in reason
