"""Job files for other systems."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.engines.emit import emit_jobs


def test_a_snakefile_has_a_rule_for_every_run(tmp_path: Path) -> None:
    runs = [tmp_path / "b2t-6-seed1", tmp_path / "it's"]
    (file,) = emit_jobs("snakemake", runs, tmp_path / "jobs", threads=2, gpus=1)
    text = file.read_text()
    assert file.name == "Snakefile"
    assert text.count("rule run_") == 2
    assert text.count("threads: 2") == 2
    assert "resources: gpus=1" in text
    assert str(runs[0]) in text.split("rule run_1")[0], "rule all asks for it"


def test_tasks_of_skypilot_are_launched_by_a_script(tmp_path: Path) -> None:
    runs = [tmp_path / "Run1", tmp_path / "run2"]
    script, *tasks = emit_jobs("skypilot", runs, tmp_path / "jobs", gpus=1)
    assert [task.name for task in tasks] == ["Run1.yaml", "run2.yaml"]
    assert script.read_text().count("sky jobs launch") == 2
    first = json.loads(tasks[0].read_text())
    assert first["name"] == "run1"
    assert first["resources"]["accelerators"] == {"A100": 1}
    assert str(runs[0]) in first["run"]


def test_a_command_reports_a_diverged_run_as_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell command of a job succeeds for exit code 3 and fails for others."""
    (_, task) = emit_jobs("skypilot", [tmp_path / "run"], tmp_path / "jobs")
    command = json.loads(task.read_text())["run"]
    _, _, check = command.partition(" || ")
    for code, expected in ((3, 0), (2, 1)):
        shell = f"{sys.executable} -c 'import sys; sys.exit({code})' || {check}"
        assert subprocess.run(shell, shell=True).returncode == expected


def test_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="snakemake"):
        emit_jobs("make", [tmp_path], tmp_path)
