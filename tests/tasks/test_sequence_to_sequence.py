"""Translation and summarisation: references as outputs get the best score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.data.tokenizer import EOS
from lamina.generate.decoder import Hypothesis
from support.small_tasks import model_for, task_of


@pytest.mark.parametrize(("name", "perfect"), [("translation", "bleu"), ("summarisation", "rougeL")])
def test_perfect_outputs_get_a_perfect_score(
    name: str, perfect: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(name, folder)
    answers = {
        (*task.store["valid"].tokens("source", at), EOS): task.store["valid"].tokens("target", at).tolist()
        for at in range(len(task.store["valid"]))
    }

    def oracle(model: object, sources: list[list[int]], *_: Any, **options: Any) -> list[list[Hypothesis]]:
        return [[Hypothesis(answers[tuple(source)], 0.0, 0.0)] for source in sources]

    monkeypatch.setattr("lamina.tasks.sequence_to_sequence.generate", oracle)
    assert task.evaluate(model_for(task), "valid")[perfect] == pytest.approx(100)
