"""A watched run trains the same; its observations are kept when it is resumed, and shown again."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.watching.observation import read_observations
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import ObservationsFile
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run, read_config
from support.small_runs import config_for, weights
from support.trained_runs import trained_run

SMALL = Extent(seeds=1, batches=1, tokens=60, depths=False)


def test_a_watched_run_trains_the_same_and_stores_its_observations(stores: Path, tmp_path: Path) -> None:
    Run(config_for("translation", stores), tmp_path / "plain").train(quiet=True)
    watched = config_for("translation", stores, diagnose={"every": 2})
    Run(watched, tmp_path / "watched").train(quiet=True)
    plain, other = weights(tmp_path / "plain"), weights(tmp_path / "watched")
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    seen = [line for line in RunFolder(tmp_path / "watched").metrics.read() if "update/decoder.1.query" in line]
    assert [line["step"] for line in seen] == [2, 4, 6]
    assert all(line["update/decoder.1.query"] > 0 and line["gradient/encoder.1.inner"] > 0 for line in seen)
    diagnosis = Diagnosis.read(tmp_path / "watched" / "diagnosis" / "training.json")
    assert diagnosis.name == "watched"
    assert diagnosis.measurements
    resumed = config_for("translation", stores, diagnose={"every": 3}, train={"steps": 9})
    assert Run(resumed, tmp_path / "watched").train(quiet=True).step == 9  # watching is no part of what is trained


def watched_run(folder: Path, *parts: int) -> Path:
    """A run that is watched at every second step and resumed up to each of these steps in turn."""
    run = trained_run("translation", folder, steps=1)
    for steps in parts:
        Run(read_config(run, [f"train.steps={steps}", "diagnose.every=2"]), run).train(quiet=True)
    return run


def findings_and_measurements(diagnosis: Diagnosis) -> object:
    """All but the curves of single steps: of those after its last observation a killed run has none."""
    single_steps = {"watched-loss", "watched-gradient-norm", "spikes"}
    findings = [each for each in diagnosis.findings if each.check not in single_steps]
    return findings, [each for each in diagnosis.measurements if each.key not in single_steps]


def test_a_run_that_is_resumed_keeps_its_observations(tmp_path: Path) -> None:
    once, parts = watched_run(tmp_path / "once", 8), watched_run(tmp_path / "parts", 5)
    observations = parts / "diagnosis" / "observations.json"
    assert [each.step for each in read_observations(ObservationsFile(observations), until=9)] == [2, 4]
    shutil.copy(once / "diagnosis" / "observations.json", observations)  # as if killed after its next observation
    watched_run(tmp_path / "parts", 8)
    one, other = (Diagnosis.read(run / "diagnosis" / "training.json") for run in (once, parts))
    assert one["watched-updates"].measured[0].x == (2, 4, 6, 8)
    assert findings_and_measurements(one) == findings_and_measurements(other)
    Run(read_config(parts, ["train.steps=9", "diagnose.every=0"]), parts).train(quiet=True)
    assert Diagnosis.read(parts / "diagnosis" / "training.json") == other, "a run no longer watched keeps it too"
