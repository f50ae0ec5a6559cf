"""Faults of the model: each changes what it should, and nothing before it."""

from __future__ import annotations

import torch

from lamina.studies.faults.model_faults import copy_tied, detach, double_residual, freeze, mask, overflow, zero_gain
from lamina.studies.faults.models import LAYER, plain_trial


def test_parameters_that_are_not_trained() -> None:
    trial = plain_trial()
    freeze(trial)
    frozen = {name for name, each in trial.model.named_parameters() if not each.requires_grad}
    assert frozen
    assert all(name.startswith(f"layers.{LAYER}.") for name in frozen)
    trial = plain_trial()
    detach(trial)
    batch = trial.batch(0)
    trial.loss(trial.model(*batch), batch).backward()  # type: ignore[no-untyped-call]
    assert [each.inner.weight.grad is None for each in trial.layers] == [at < LAYER for at in range(len(trial.layers))]


def test_a_branch_beyond_half_precision_leaves_the_output_as_it_was() -> None:
    trial = plain_trial()
    before = trial.model(*trial.batch(0))
    overflow(trial)
    assert torch.allclose(trial.model(*trial.batch(0)), before, atol=1e-3)


def test_an_inverted_mask_hides_what_comes_before() -> None:
    trial = plain_trial()
    mask(trial, inverted=True)
    (tokens,) = trial.batch(0)
    changed = tokens.clone()
    changed[:, 0] = 1
    assert torch.allclose(trial.model(changed)[:, 1:], trial.model(tokens)[:, 1:], atol=1e-5)
    assert not torch.allclose(trial.model(changed)[:, 0], trial.model(tokens)[:, 0])


def test_faults_that_change_the_output() -> None:
    for inject in (double_residual, zero_gain, copy_tied):
        trial = plain_trial()
        before = trial.model(*trial.batch(0))
        inject(trial)
        assert not torch.allclose(trial.model(*trial.batch(0)), before, atol=1e-3)
