"""What was seen in training is kept when a run is resumed, and shown again like any diagnosis that was stored."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.api import diagnose_paths
from lamina.cli import app
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.watching.observation import read_observations
from lamina.errors import UserError
from lamina.report.pages.diagnosis import save_diagnoses
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run, read_config
from support.made_diagnoses import make
from support.trained_runs import trained_run

SMALL = Extent(seeds=1, batches=1, tokens=60, depths=False)


def watched_run(folder: Path, *parts: int) -> Path:
    """A run that is watched at every second step, and goes on to each of these steps in turn."""
    run = trained_run("translation", folder, steps=1)
    for steps in parts:
        Run(read_config(run, [f"train.steps={steps}", "diagnose.every=2"]), run).train(quiet=True)
    return run


def test_a_run_that_is_resumed_keeps_what_was_seen(tmp_path: Path) -> None:
    once, parts = watched_run(tmp_path / "once", 8), watched_run(tmp_path / "parts", 5)
    observations = parts / "diagnosis" / "observations.json"
    assert [each.step for each in read_observations(observations, until=9)] == [2, 4]
    shutil.copy(once / "diagnosis" / "observations.json", observations)  # as if killed after its next observation
    watched_run(tmp_path / "parts", 8)
    one, other = (Diagnosis.read(run / "diagnosis" / "training.json") for run in (once, parts))
    assert one["watched-updates"].measured[0].x == (2, 4, 6, 8)
    assert one == other
    Run(read_config(parts, ["train.steps=9", "diagnose.every=0"]), parts).train(quiet=True)
    assert Diagnosis.read(parts / "diagnosis" / "training.json") == other, "a run no longer watched keeps it too"


def test_the_former_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"version": 1, "name": "x", "model": "", "measures": []}')
    with pytest.raises(UserError, match=r"format 1, but this version of Lamina reads format 2: make it again with lam"):
        diagnose_paths([str(tmp_path / "old.json")], SMALL)


def test_a_watched_run_shows_what_was_seen(tmp_path: Path) -> None:
    run = watched_run(tmp_path, 5)
    start, trained, watched = diagnose_paths([str(run)], SMALL)
    assert [each.stage.step for each in (start, trained, watched)] == [None, 5, 4]
    assert watched["watched-updates"].measured
    page = tmp_path / "why.html"
    shown = CliRunner().invoke(app, ["diagnose", str(run / "diagnosis" / "training.json"), "--output", str(page)])
    assert shown.exit_code == 0, shown.output
    assert "watched at 2 steps, last at step 4" in shown.output
    assert "Updates over training" in page.read_text()


def test_stored_diagnoses_are_shown_without_measuring(tmp_path: Path) -> None:
    one, other = make("post-ln"), make("pre-ln", step=3)
    save_diagnoses([one], tmp_path / "one.json")
    save_diagnoses([other, one], tmp_path / "both.json")
    shown = diagnose_paths([str(tmp_path / "one.json")], SMALL)
    assert str(shown) == str([one]), "some numbers are none, and not equal"
    names = [each.name for each in diagnose_paths([str(tmp_path / name) for name in ("both.json", "one.json")], SMALL)]
    assert names == ["pre-ln", "post-ln", "post-ln"]


@pytest.mark.parametrize("content", ["{", "[]x", '{"name": "x"}', "[1]"])
def test_a_file_that_is_no_diagnosis_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "metrics.json"
    with pytest.raises(UserError, match=r"metrics\.json: No such file"):
        diagnose_paths([str(file)], SMALL)
    file.write_text(content)
    with pytest.raises(UserError, match=r"metrics\.json: not a diagnosis"):
        diagnose_paths([str(file)], SMALL)
