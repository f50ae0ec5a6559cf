"""The paths of a run folder's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.layout import RunFiles


def test_all_files_are_inside_the_folder(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / "run")
    held = [getattr(each, "path", each) for name, each in vars(files).items() if name != "path"]
    assert len(held) > 15
    assert all(each.is_relative_to(files.path) for each in held)
    assert len(set(held)) == len(held)


def test_checkpoints_and_diagnoses_are_named_by_their_step(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    assert files.checkpoint(1000) == tmp_path / "checkpoints" / "step-00001000"
    assert files.step_diagnosis(20) == tmp_path / "diagnosis" / "step-00000020.json"
    assert files.last_step_diagnosis() is None
    files.diagnosis.mkdir()
    for step in (5, 100, 20):
        files.step_diagnosis(step).touch()
    assert files.last_step_diagnosis() == files.step_diagnosis(100)


def test_a_folder_without_config_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder .no config.toml.; train one with lamina train"):
        RunFiles(tmp_path).require_config()
    RunFiles(tmp_path).config.touch()
    assert RunFiles(tmp_path).require_config().name == "config.toml"
