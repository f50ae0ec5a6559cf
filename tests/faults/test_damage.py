"""Every file of a run folder and a store, damaged in every way: no command is silent, and none ends in a traceback."""

from __future__ import annotations

import random

import pytest

from support.damage import COMMANDS, WAYS, DamageTrial, run_trials

SAMPLE = 60


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> DamageTrial:
    return DamageTrial(tmp_path_factory.mktemp("damage"))


@pytest.mark.faults
def test_a_sample_of_all_damages(trial: DamageTrial) -> None:
    tally = run_trials(trial, iter(random.Random(14).sample(trial.cases(), SAMPLE)))
    assert tally.bad == []
    assert tally.good == SAMPLE


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_all_damages(command: str, trial: DamageTrial) -> None:
    cases = [case for case in trial.cases() if case[2] == command]
    assert len(cases) == len(trial.files()) * len(WAYS) > 300
    tally = run_trials(trial, iter(cases))
    assert tally.bad == []
