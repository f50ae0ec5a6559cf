"""Pairs of sentences: the same input for a classifier and for masked language modelling."""

from __future__ import annotations

from pathlib import Path

import torch

from lamina.tasks import build_task
from support.small_tasks import ORDER, task_of


def test_pairs_of_sentences_are_masked_as_the_classifier_reads_them(folder: Path) -> None:
    classification = task_of("classification", folder)
    task = build_task("masked-language-modelling", classification.store, {})
    specials = len(task.store.tokenizer().specials)
    batch = task.batches("train", ORDER).batch(0, 0)
    masked, whole = task.inputs(batch, seed=3), classification.inputs(batch)
    tokens, only, labels = masked.tensors["tokens"], masked.tensors["only"], masked.labels

    assert 0 < masked.count == len(only) == len(labels)
    tokens[only] = labels  # what was hidden
    assert torch.equal(tokens, whole.tensors["tokens"])
    assert min(labels.tolist()) >= specials
    assert torch.equal(masked.tensors["segments"], whole.tensors["segments"])
    both = [task.store["train"].lengths(name).sum() for name in ("first", "second")]
    assert task._frequencies("train", len(task.store.tokenizer())).sum() == sum(both)
