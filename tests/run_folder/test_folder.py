"""The run folder: paths, one writer, whole files."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import Cost
from lamina.tasks.base import SampleOutput


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "first").claim()


def test_reading_changes_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "first")
    assert run.status() is None
    assert list(run.metrics.read()) == []
    assert list(tmp_path.iterdir()) == []


def test_claiming_makes_the_folders(run: RunFolder) -> None:
    assert run.checkpoints.is_dir()
    assert run.diagnosis.is_dir()


def test_a_second_claim_is_refused_and_the_holder_named(run: RunFolder) -> None:
    again = RunFolder(run.path)
    with pytest.raises(UserError, match=rf"first: process {os.getpid()} on {socket.gethostname()} is writing"):
        again.claim()
    run.release()
    again.claim()
    with pytest.raises(UserError, match="is writing in this folder"):
        run.claim()


def test_leaving_the_block_releases(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder(tmp_path / "run").claim() as run:
            run.metrics.append(1, {"loss": 2.0})
    assert [line["step"] for line in run.metrics.read()] == [1, 1]


def test_writing_needs_a_claim(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for write in (
        lambda: run.set_status("running", 0),
        lambda: run.store_config("x"),
    ):
        with pytest.raises(AssertionError):
            write()


def test_a_path_that_cannot_be_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file: no run folder can be made there \((Not a directory|File exists)\)"):
        RunFolder(tmp_path / "file").claim()


def test_status_keeps_the_first_start(run: RunFolder) -> None:
    run.set_status("running", 0)
    first = run.status()
    assert first is not None
    early = {**first.model_dump(), "started": "2020-01-01T00:00:00+00:00", "updated": "2020-01-01T00:00:00+00:00"}
    (run.path / "status.json").write_text(json.dumps(early))
    run.set_status("failed", 17, "the loss is not finite at step 18")
    status = RunFolder(run.path).status()
    assert status is not None
    assert (status.state, status.step) == ("failed", 17)
    assert status.reason == "the loss is not finite at step 18"
    assert status.started == "2020-01-01T00:00:00+00:00"
    assert status.updated > "2024"


def test_an_invalid_status_is_named(run: RunFolder) -> None:
    (run.path / "status.json").write_text('{"state": "fine"}')
    with pytest.raises(UserError, match=r"status\.json: cannot be understood; damaged"):
        run.status()


def test_config_is_replaced_whole_or_not_at_all(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.store_config("a = 1\n")
    assert run.config.read_text() == "a = 1\n"

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(UserError, match="No space left"):
        run.store_config("a = 2\n")
    assert run.config.read_text() == "a = 1\n"
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "checkpoints", "config.toml", "diagnosis"]


def test_rewinding_drops_metrics_and_samples_of_later_steps(run: RunFolder) -> None:
    for step in (5, 10):
        run.metrics.append(step, {"loss": 1.0})
        run.samples.append(step, [SampleOutput("source", "reference", "output")])
    run.rewind(7)
    assert [line["step"] for line in run.metrics.read()] == [5]
    assert [step for step, _ in run.samples.read()] == [5]


def test_the_best_checkpoint_is_the_latest_where_none_was_chosen(run: RunFolder) -> None:
    with pytest.raises(UserError, match="no checkpoint 'best'; there are: none"):
        run.find_checkpoint("best")
    for step in (3, 12):
        run.checkpoint(step).mkdir()
    run.latest.symlink_to(run.checkpoint(12).name)
    assert run.find_checkpoint("best").resolve() == run.checkpoint(12)
    run.best.symlink_to(run.checkpoint(3).name)
    assert run.find_checkpoint("best").resolve() == run.checkpoint(3)
    assert run.find_checkpoint("step-00000003") == run.checkpoint(3)
    assert run.list_checkpoints() == [run.checkpoint(3), run.checkpoint(12)]
    with pytest.raises(UserError, match="no checkpoint 'step-4'; there are: step-00000003, step-00000012"):
        run.find_checkpoint("step-4")
    with pytest.raises(UserError, match="no average yet; make it with lamina average"):
        run.find_checkpoint("average")
    run.average.mkdir()
    assert run.find_checkpoint("average") == run.average


def test_the_last_diagnosis_of_a_checkpoint(run: RunFolder) -> None:
    assert run.last_step_diagnosis() is None
    for step in (9, 100):
        run.step_diagnosis(step).touch()
    run.start_diagnosis.touch()
    assert run.last_step_diagnosis() == run.step_diagnosis(100)


def test_a_run_moved_aside_has_a_successor(run: RunFolder) -> None:
    run.release()
    aside = run.move_aside()
    assert (aside.name, run.path.exists()) == ("first.former1", False)
    run.path.mkdir()
    assert run.move_aside().name == "first.former2"
    assert RunFolder(aside).successor == run.path
    assert run.successor is None


def test_cost_adds_up_over_attempts(run: RunFolder) -> None:
    assert run.cost.read() is None
    run.add_cost(1.5, 300)
    run.add_cost(2.0, 200)
    assert run.cost.read() == Cost(seconds=3.5, memory=300)


def test_paths_and_status_are_read_without_torch() -> None:
    program = "import sys, lamina.run_folder.folder as f; f.RunFolder('x').status(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
