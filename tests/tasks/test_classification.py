"""Classification: the two sentences as one sequence."""

from __future__ import annotations

from pathlib import Path

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
