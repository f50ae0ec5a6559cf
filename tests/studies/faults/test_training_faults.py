"""Faults of training: optimisers and clipping."""

from __future__ import annotations

from torch.optim import SGD

from lamina.studies.faults.models import plain_trial
from lamina.studies.faults.training_faults import ascend, clip_hard, grouped, optimise, post_norm


def test_the_optimiser_and_its_settings() -> None:
    trial = plain_trial()
    optimise(trial, eps=1e-2, lr=3.0)
    (group,) = trial.make_optimiser(trial.model).param_groups
    assert (group["eps"], group["lr"]) == (1e-2, 3.0)
    ascend(trial)
    optimiser = trial.make_optimiser(trial.model)
    assert isinstance(optimiser, SGD)
    assert optimiser.param_groups[0]["maximize"]


def test_a_layer_without_updates() -> None:
    trial = plain_trial()
    total = sum(1 for _ in trial.model.parameters())
    for rate, groups in ((0.0, 2), (None, 1)):
        grouped(trial, rate)
        found = trial.make_optimiser(trial.model).param_groups
        assert len(found) == groups
        assert sum(len(each["params"]) for each in found) == total - (0 if rate is not None else 16)


def test_clipping_and_a_deep_model() -> None:
    trial = plain_trial()
    clip_hard(trial)
    assert trial.clip == 1e-4
    post_norm(trial)
    assert (len(trial.layers), trial.warmup) == (18, 0)
