"""Language modelling: every token is scored once; perplexity by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lamina.data.tokenizer import EOS
from support.small_tasks import model_for, task_of


def test_language_model_scores_every_token_once_with_and_without_context(folder: Path) -> None:
    totals = {}
    for context in (0, 40):
        task = task_of("language-modelling", folder, context=context)
        totals[context] = sum(inputs.count for _, inputs in task.every_batch(model_for(task), "valid", 300))
    split = task.store["valid"]
    assert totals[0] == totals[40] == int(split.lengths("text").sum()) + len(split)


def test_language_model_perplexity_by_hand(folder: Path) -> None:
    task = task_of("language-modelling", folder, block_length=10_000)
    model, split = model_for(task).eval(), task.store["valid"]
    stream = [EOS]
    for at in range(len(split)):
        stream += [*split.tokens("text", at).tolist(), EOS]
    with torch.no_grad():
        scores = model(torch.tensor([stream[:-1]]))[0].log_softmax(-1)
    nll = -scores.gather(1, torch.tensor(stream[1:])[:, None]).sum().item()
    found = task.evaluate(model, "valid")
    assert found["nll"] == pytest.approx(nll / (len(stream) - 1), rel=1e-4)
    texts = task.store.tokenizer().decode_batch(split.tokens("text", at) for at in range(len(split)))
    words = sum(len(text.split()) + 1 for text in texts)
    assert found["perplexity per word"] == pytest.approx(np.exp(nll / words), rel=1e-3)
