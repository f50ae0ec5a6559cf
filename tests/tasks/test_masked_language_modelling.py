"""Masked language modelling: the share and the kinds of masked tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.data.tokenizer import CLS, MASK, SEP
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
