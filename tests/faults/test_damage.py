"""Every file of a run folder and a store, damaged in every way: no command is silent, and none ends in a traceback."""

from __future__ import annotations

import random

import pytest

from support.damage import COMMANDS, LINK_WAYS, WAYS, DamageTrial, run_trials

SAMPLE = 60


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> DamageTrial:
    return DamageTrial(tmp_path_factory.mktemp("damage"))


@pytest.mark.faults
def test_a_sample_of_all_damages(trial: DamageTrial) -> None:
    counts, bad = run_trials(trial, random.Random(14).sample(trial.cases(), SAMPLE))
    assert bad == []
    assert counts.total() == SAMPLE
    assert counts["refused"] + counts["warned"] > SAMPLE / 4


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_all_damages(command: str, trial: DamageTrial) -> None:
    cases = trial.cases(command)
    assert len(cases) == (len(trial.files()) - 2) * len(WAYS) + 2 * len(LINK_WAYS) > 700
    counts, bad = run_trials(trial, cases)
    print(f"{command}: {dict(counts)}")
    assert bad == []
