"""Masked language modelling: the share and the kinds of masked tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.data.tokenizer import CLS, MASK, SEP
from lamina.tasks import build_task
from support.small_tasks import ORDER, rows, task_of


def test_masking_hides_the_right_share_and_is_fixed_for_validation(folder: Path) -> None:
    task = task_of("masked-language-modelling", folder)
    specials = range(len(task.store.tokenizer().specials))
    hidden = words = masks = 0
    for batch in task.batches("train", ORDER).epoch(0):
        inputs = task.inputs(batch, seed=3)
        tokens, only = inputs.tensors["tokens"], inputs.tensors["only"]
        for row in rows(tokens, inputs.lengths["lengths"]):
            assert (row[0], row[-1]) == (CLS, SEP)
        assert not set(inputs.labels.tolist()) & set(specials)
        hidden += inputs.count
        masks += int((tokens[only] == MASK).sum())
        words += int((batch["target"].ids >= len(specials)).sum())
    assert hidden / words == pytest.approx(0.15, abs=0.02)
    assert masks / hidden == pytest.approx(0.8, abs=0.05)

    first, again = (task.inputs(task.batches("valid", ORDER).batch(0, 0)) for _ in range(2))
    assert torch.equal(first.tensors["tokens"], again.tensors["tokens"])


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
