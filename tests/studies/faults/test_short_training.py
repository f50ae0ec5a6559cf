"""A short training of a trial, and what the model has learnt."""

from __future__ import annotations

from math import inf, log

import pytest

from lamina.studies.faults.models import WORDS, plain_trial
from lamina.studies.faults.short_training import healthy_limit, next_word_loss, steps_of, trained_loss
from lamina.studies.faults.target_faults import log_of_zero


def test_training_lowers_the_loss_and_restores_the_learning_rate() -> None:
    trial = plain_trial()
    optimiser = trial.make_optimiser(trial.model)
    losses = steps_of(trial, optimiser, 6)
    assert losses[-1] < losses[0]
    assert optimiser.param_groups[0]["lr"] == 1e-3


def test_what_a_model_has_learnt() -> None:
    before = next_word_loss(plain_trial())
    assert before == pytest.approx(log(WORDS), rel=0.1)
    assert trained_loss(plain_trial(), 10) < before
    trial = plain_trial()
    log_of_zero(trial)
    assert trained_loss(trial, 2) == inf, "it diverged"


def test_the_limit_lies_above_the_mean_of_healthy_trials() -> None:
    mean, limit = healthy_limit(plain_trial, 3)
    assert mean + 0.05 <= limit < mean + 1
