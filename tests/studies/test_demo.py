"""The demonstration, cut short: it runs to its end, and the same seed gives the same losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.demo import SCHEMES, run_demo
from lamina.train.run_folder import RunFolder

pytestmark = pytest.mark.slow
STEPS = 5


def losses(folder: Path) -> dict[str, list[float]]:
    runs = sorted((folder / "runs").iterdir())
    return {run.name: [line["loss"] for line in RunFolder(run).metrics.read() if "loss" in line] for run in runs}


def test_two_demos_have_the_same_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        page = run_demo(folder, STEPS)
        assert page.read_text().startswith("<!doctype html>")
    said = capsys.readouterr().out
    assert f"The report: {first / 'report.html'}" in said
    assert len(losses(first)) == len(SCHEMES)
    assert all(losses(first).values())
    assert losses(first) == losses(second)
