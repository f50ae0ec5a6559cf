"""Summarisation: ROUGE, and outputs that are no longer than their sources."""

from __future__ import annotations

from pathlib import Path

from lamina.tasks.metrics import rouge
from support.small_tasks import task_of


def test_outputs_are_scored_by_rouge_and_not_longer_than_their_sources(folder: Path) -> None:
    task = task_of("summarisation", folder)
    hypotheses, references = ["a dog runs", "rain again"], ["the dog runs", "rain"]
    assert task.score(hypotheses, references) == rouge(hypotheses, references)
    assert task.metric in task.score(hypotheses, references)
    assert task.options.generation.length_factor == 1.0
