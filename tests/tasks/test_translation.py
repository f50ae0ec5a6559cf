"""Translation: bos and eos, word dropout, and the signatures of its metrics."""

from __future__ import annotations

from pathlib import Path

from lamina.data.tokenizer import BOS, EOS
from support.small_tasks import ORDER, rows, task_of


def test_translation_has_its_ends_in_place(folder: Path) -> None:
    task = task_of("translation", folder)
    batch = task.batches("train", ORDER).batch(0, 0)
    inputs = task.inputs(batch)
    sources = rows(inputs.tensors["source"], inputs.lengths["source_lengths"])
    targets = rows(inputs.tensors["target"], inputs.lengths["target_lengths"])
    labels = rows(inputs.labels, inputs.lengths["target_lengths"])
    for plain, source in zip(batch["source"].sequences(), sources, strict=True):
        assert source == [*plain, EOS]
    for plain, target, label in zip(batch["target"].sequences(), targets, labels, strict=True):
        assert target == [BOS, *plain]
        assert label == [*plain, EOS]
    assert inputs.count == sum(map(len, labels))
    assert sum(max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)) <= 300


def test_translation_prints_the_signature_of_its_scores(folder: Path) -> None:
    for name in ("translation", "multilingual-translation"):
        assert "tok:13a" in task_of(name, folder).signatures()["bleu"]
        assert "tok:none" in task_of(name, folder, bleu="bleu-tok").signatures()["bleu"]
