"""The list of runs, including damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli import app
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.listing import list_runs
from support.trained_runs import trained_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, its copies in other states, and folders that are no runs."""
    root = tmp_path_factory.mktemp("listed")
    made = trained_run("classification", root)
    runs = root / "all"
    for name in ("b", "deep/c", "cut", "gone", "new"):
        shutil.copytree(made, runs / name, symlinks=True)
    with RunFolder(runs / "b").claim() as claimed:
        claimed.set_status("running", 4)
    (runs / "cut" / "status.json").write_text('{"state": "fini')
    (runs / "gone" / "config.toml").unlink()
    (runs / "new" / "status.json").unlink()
    (runs / "notes").mkdir()
    (runs / "notes" / "config.toml").write_text("not a run")
    return runs


def test_states(folder: Path) -> None:
    found = {str(each.path.relative_to(folder)): each for each in list_runs(folder)}
    states = {name: each.state for name, each in found.items()}
    assert states.pop("deep/c") == "too short"
    assert states == {"b": "killed", "cut": "damaged", "gone": "damaged", "new": "not started"}
    run = found["deep/c"]
    assert (run.task, run.step, run.steps) == ("classification", 6, 6)
    assert run.metric is not None
    assert run.metric[0] == "accuracy"
    assert "status.json" in found["cut"].problem
    assert "config.toml" in found["gone"].problem


def test_a_run_that_is_being_written_is_running(folder: Path) -> None:
    with RunFolder(folder / "b").claim():
        assert not RunFolder(folder / "nowhere").is_being_written
        assert [each.state for each in list_runs(folder / "b")] == ["running"]


def test_the_command_names_what_is_damaged(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["runs", str(folder)])
    assert shown.exit_code == 0, shown.output
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "killed" in lines["b"]
    assert "4 of 6" in lines["b"]
    assert "accuracy" in lines["deep/c"]
    assert "damaged" in lines["cut"]
    assert f"{folder / 'cut' / 'status.json'}: cannot be understood" in shown.stdout


def test_folders_without_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        list_runs(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no run in it; start one with lamina train"):
        list_runs(tmp_path)
