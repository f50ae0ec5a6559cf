"""Temporary modes: the model and the random state are afterwards as they were before, also after an error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import nn

from lamina.model.modes import evaluation_mode, profiling


def fail_inside(context: AbstractContextManager[Any]) -> None:
    with context:
        torch.rand(3)
        raise KeyError


@pytest.mark.parametrize("training", [False, True])
def test_evaluation_mode_is_without_dropout_and_restores_the_mode(training: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(training)
    with evaluation_mode(model):
        assert not any(each.training for each in model.modules())
    assert all(each.training is training for each in model.modules())
    with pytest.raises(KeyError):
        fail_inside(evaluation_mode(model))
    assert all(each.training is training for each in model.modules())


def test_evaluation_mode_restores_the_mode_of_every_module() -> None:
    """As of a model in training whose embedding, or batch norm, is frozen."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    model[1].eval()
    with evaluation_mode(model):
        assert not any(each.training for each in model.modules())
    assert [each.training for each in (model, *model)] == [True, True, False]


def test_profiling_runs_in_training_mode_without_gradient_and_restores_the_state() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(3, 4)
    model[1].eval()
    before = torch.random.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16), profiling(model, x):
        assert all(each.training for each in model.modules())
        output = model(x)
    assert output.dtype == torch.float32
    assert not output.requires_grad
    with pytest.raises(KeyError):
        fail_inside(profiling(model, x))
    assert [each.training for each in model.modules()] == [True, True, False]
    assert torch.equal(torch.random.get_rng_state(), before)
