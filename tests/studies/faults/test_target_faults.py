"""Faults of targets and of the loss."""

from __future__ import annotations

from math import isfinite, log

import pytest
import torch

from lamina.studies.faults.models import WORDS, plain_trial
from lamina.studies.faults.target_faults import log_of_zero, pad, shift_labels, shuffle_targets, softmax_twice


def loss_of_right_answers(offset: int) -> float:
    """The loss of logits that give the token `offset` places further all the probability."""
    trial = plain_trial()
    shift_labels(trial, offset)
    batch = trial.batch(0)
    logits = 100 * torch.nn.functional.one_hot(batch[0].roll(-offset, 1), WORDS).float()
    return trial.loss(logits, batch).item()


def test_labels_lie_at_the_given_distance() -> None:
    for offset in (0, 1, 2):
        assert loss_of_right_answers(offset) == pytest.approx(0.0, abs=1e-4)


def test_targets_of_other_sentences() -> None:
    trial = plain_trial()
    right = plain_trial()
    shuffle_targets(trial)
    batch = trial.batch(0)
    logits = 10 * torch.nn.functional.one_hot(batch[0].roll(-1, 1), WORDS).float()
    assert trial.loss(logits, batch) > right.loss(logits, batch) + 1


def test_formulas_of_the_loss() -> None:
    trial = plain_trial()
    softmax_twice(trial)
    batch = trial.batch(0)
    assert trial.loss(trial.model(*batch), batch).item() == pytest.approx(log(WORDS), rel=1e-2)
    trial = plain_trial()
    log_of_zero(trial)
    assert not isfinite(trial.loss(trial.model(*batch), batch).item())


def test_half_of_the_sentences_are_half_padding() -> None:
    for left in (True, False):
        trial = plain_trial()
        pad(trial, left=left)
        (tokens,) = trial.batch(0)
        assert (tokens == 0).float().mean().item() == pytest.approx(0.25)
        assert bool((tokens[0, 0] == 0) == left)
