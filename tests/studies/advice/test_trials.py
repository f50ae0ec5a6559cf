"""Trials: they stop where they are told to, continue with the same bits, and are the planned run in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.config import to_toml
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import TrialRecord
from lamina.run_folder.status import DIVERGED
from lamina.studies.advice.trials import clock_of, compress, train_trial, trains_on_gpu, trial_config
from lamina.training.config import RunConfig
from lamina.training.schedule import ScheduleOptions, build_schedule
from support.small_runs import assert_same, config_for, weights


@pytest.fixture
def config(stores: Path) -> RunConfig:
    planned = {"steps": 80, "validate_every": 1, "evaluate_every": 1, "patience": 1, "samples": 2}
    return config_for("classification", stores, train=planned)


def prepare(config: RunConfig, path: Path) -> Path:
    with RunFolder(path).claim() as claimed:
        claimed.store_config(to_toml(config))
    return path


def train(path: Path, until: int) -> int:
    before = RunFolder(path).trial.read() or TrialRecord(until=until)
    RunFolder(path).trial.write(before.model_copy(update={"until": until}))
    return train_trial(path)


def record(path: Path) -> TrialRecord:
    found = RunFolder(path).trial.read()
    assert found is not None
    return found


def test_it_stops_measures_and_continues_with_the_same_bits(config: RunConfig, tmp_path: Path) -> None:
    trial = trial_config(config, 1, length=8, planned=80)
    twice, once = prepare(trial, tmp_path / "twice"), prepare(trial, tmp_path / "once")
    assert train(twice, 3) == 0
    first = record(twice)
    assert first.losses.keys() == {3}
    assert first.seconds > 0
    assert first.seconds_per_step > 0
    train(twice, 8)
    train(once, 8)
    assert record(twice).losses.keys() == {3, 8}
    assert record(twice).losses[8] == record(once).losses[8]
    assert record(twice).seconds > first.seconds
    assert_same(weights(twice), weights(once))
    assert not any("final" in key for line in RunFolder(once).metrics.read() for key in line), "nothing is evaluated"


def test_a_trial_that_was_killed_before_its_record_is_measured_where_it_is(config: RunConfig, tmp_path: Path) -> None:
    path = prepare(trial_config(config, 1, length=8, planned=80), tmp_path / "trial")
    train(path, 3)
    measured = record(path).losses
    RunFolder(path).trial.write(TrialRecord(until=3))
    train_trial(path)
    assert record(path).losses == measured


def test_one_that_diverges_has_no_loss(config: RunConfig, tmp_path: Path) -> None:
    wild = config.model_copy(update={"schedule": config.schedule.model_copy(update={"learning_rate": 1e30})})
    path = prepare(trial_config(wild, 1, length=8, planned=80), tmp_path / "trial")
    assert train(path, 8) == DIVERGED
    assert record(path).losses == {}


@pytest.mark.parametrize("name", ["inverse-root", "linear", "shifted-root", "constant"])
def test_the_schedule_is_that_of_the_planned_run_in_small(name: str) -> None:
    warmup = {} if name == "shifted-root" else {"warmup_steps": 400}
    planned = ScheduleOptions.read({"name": name, "learning_rate": 1.0, "decay_steps": 800, **warmup}, where="")
    small = compress(planned, 0.05)
    whole = build_schedule(planned, total_steps=4000, steps_per_epoch=10)
    short = build_schedule(small, total_steps=200, steps_per_epoch=10)
    for step in range(1, 200):
        assert short(step) == pytest.approx(whole(20 * step), abs=0.01)


def test_a_schedule_without_warmup_stays_without() -> None:
    assert compress(ScheduleOptions.read({"warmup_steps": 1}, where=""), 0.01).warmup == 1


def test_the_clock_is_the_processors_unless_a_gpu_trains(config: RunConfig) -> None:
    import time

    on_gpu = config.model_copy(update={"train": config.train.model_copy(update={"device": "cuda"})})
    on_cpu = config.model_copy(update={"train": config.train.model_copy(update={"device": "cpu"})})
    assert (trains_on_gpu(on_gpu), trains_on_gpu(on_cpu)) == (True, False)
    assert clock_of(on_gpu) is time.perf_counter
    assert clock_of(on_cpu) is time.process_time
