"""Classification: the two sentences as one sequence."""

from __future__ import annotations

import math
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


def test_a_classifier_has_learnt_if_its_loss_or_its_accuracy_is_better_than_a_guess(folder: Path) -> None:
    task = task_of("classification", folder)
    counts = np.bincount(task.store["valid"].gather("label", np.arange(len(task.store["valid"])))[0])
    examples, majority = counts.sum(), counts.max() / counts.sum()
    entropy = -sum(each / examples * math.log(each / examples) for each in counts)

    def failure(loss: float, right: float) -> str:
        return task.describe_failure("valid", loss, lambda: {"accuracy": 100 * right})

    enough = math.log(20) / examples  # nats an example
    assert failure(entropy - 1.01 * enough, 0.0) == ""
    assert "no evidence of learning" in failure(entropy - 0.99 * enough, majority)
    above = majority + 1.65 * math.sqrt(majority * (1 - majority) / examples)
    assert failure(entropy + 1, above) == ""
    assert f"frequencies of the labels alone give {entropy:.3f} and {100 * majority:.1f}" in failure(entropy, majority)
    assert failure(entropy, majority + 0.5 / examples), "better by chance"


def test_guesses_seldom_pass_for_learning(folder: Path) -> None:
    """Random outputs that do not depend on the text, on many drawn sets of labels."""
    task = task_of("classification", folder)
    counts = np.bincount(task.store["valid"].gather("label", np.arange(len(task.store["valid"])))[0])
    labels = np.repeat(np.arange(len(counts)), counts)
    random = np.random.default_rng(1)
    passed = 0
    for _ in range(400):
        sure = 0.5 + 0.5 * random.uniform(0, random.uniform(), len(labels))  # the probability of the chosen label
        chosen = random.integers(0, 2, len(labels))
        right = chosen == labels
        loss = -np.log(np.where(right, sure, 1 - sure)).mean()
        metrics = {"accuracy": 100 * right.mean()}
        passed += not task.describe_failure("valid", loss, metrics.copy)
    assert passed / 400 < 0.1
