"""The tasks on the embedded languages: batches, losses and metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lamina import UserError
from lamina.model.options import ModelChoices
from lamina.tasks import TASKS
from lamina.tasks.base import Inputs
from support.memory_batches import batches_from
from support.small_tasks import ORDER, SEVERAL, SMALL, first_inputs, model_for, rows, task_of

every_task = pytest.mark.parametrize("name", TASKS)


@every_task
def test_a_few_steps_bring_the_loss_down(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    model = model_for(task)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = task.total_losses(model, "valid")
    batches = batches_from(task.batches("train", ORDER))
    for _ in range(40):
        losses = task.losses(model.train(), task.inputs(next(batches), seed=1))
        optimiser.zero_grad()
        (losses.smoothed / losses.count).backward()
        optimiser.step()
    after = task.total_losses(model, "valid")
    assert before.count == after.count > 0
    factor = 1.01 if name == "classification" else 0.9  # what these pairs ask for takes longer to learn
    assert after.nll < factor * before.nll


@every_task
def test_losses_add_up_over_any_split_of_the_batch(name: str, folder: Path) -> None:
    """One process or several, one pass or accumulation: the same sums over the same true labels."""
    torch.set_default_dtype(torch.float64)
    try:
        task = task_of(name, folder)
        model = model_for(task)
        whole = task.losses(model, first_inputs(task, order=SEVERAL))
        shares = [
            task.losses(model, task.inputs(task.batches("train", SEVERAL, rank=rank, processes=3).batch(0, 0)))
            for rank in range(3)
        ]
        assert sum(share.count for share in shares) == whole.count
        torch.testing.assert_close(sum(share.smoothed for share in shares), whole.smoothed, atol=1e-9, rtol=1e-10)
        torch.testing.assert_close(sum(share.nll for share in shares), whole.nll, atol=1e-9, rtol=1e-10)
    finally:
        torch.set_default_dtype(torch.float32)


@every_task
def test_noise_is_the_same_however_many_processes_share_a_batch(name: str, folder: Path) -> None:
    noisy = {} if name in ("masked-language-modelling", "classification") else {"word_dropout": 0.3}
    task = task_of(name, folder, **noisy)

    def tokens(inputs: Inputs) -> list[list[int]]:
        field = "source" if "source" in inputs.tensors else "tokens"
        lengths = inputs.lengths["source_lengths" if field == "source" else "lengths"]
        return rows(inputs.tensors[field], lengths)

    batches = task.batches("train", ORDER)
    one = tokens(task.inputs(batches.batch(2, 1), seed=5))
    two = [
        row
        for rank in range(2)
        for row in tokens(task.inputs(task.batches("train", ORDER, rank=rank, processes=2).batch(2, 1), seed=5))
    ]
    assert sorted(one) == sorted(two)
    if noisy:
        assert one != tokens(task.inputs(batches.batch(2, 1))), "noise is for training only"
        assert one == tokens(task.inputs(batches.batch(2, 1), seed=5))
        assert one != tokens(task.inputs(batches.batch(2, 1), seed=6))


@every_task
def test_evaluation_gives_the_metric_that_decides(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    found = task.evaluate(model_for(task), "valid")
    assert task.metric in found
    assert all(np.isfinite(value) for value in found.values())
    assert {"loss", "nll"} <= set(found)


@every_task
def test_the_task_decides_about_its_model(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    choices = ModelChoices.read({**SMALL, "preset": "theory", "residual": "b2t"}, where="test")
    options = task.model_options(choices)
    assert (options.residual, options.positions, options.model_dim) == ("b2t", "none", SMALL["model_dim"])
    assert options.vocab_size == len(task.store.tokenizer())
    assert (options.kind, options.head) == (task.model_kind, task.head) != ("encoder", "none"), "which the preset has"
    assert options.shared_embeddings == ("decoder" if name == "speech-recognition" else "all")
    assert options.num_segments == (2 if name == "classification" else 0)


@every_task
def test_calibration_takes_the_tasks_first_batch(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    model = model_for(task, residual="admin")
    inputs = first_inputs(task)
    with pytest.raises(UserError, match="ω is not set"):
        task.losses(model, inputs)
    task.calibrate(model, inputs)
    assert task.losses(model, inputs).smoothed.isfinite()


@every_task
def test_the_unigram_bound_is_the_cross_entropy_of_counting(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    labels = {"train": [], "valid": []}
    for split, found in labels.items():
        for part in task.store.sets(split):
            for at in range(len(task.store[part])):
                found += task.store[part].tokens(task.predicted, at).tolist() + ([task.end] if task.end else [])
    size = len(task.store.labels) if name == "classification" else len(task.store.tokenizer())
    counts = np.bincount(labels["train"], minlength=size) + 1
    expected = -np.log(counts / counts.sum())[labels["valid"]].mean()
    assert task.unigram_nll("valid") == pytest.approx(expected)
