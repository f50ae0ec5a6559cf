"""Run folders that earlier versions wrote, which every later version must read.

`stored/VERSION` holds the store and the run folder of a small model, as that version wrote them. They are never written
again: a version with another format adds a folder of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lamina
from lamina.api import diagnose_paths
from lamina.data.store import Store
from lamina.report.comparison_report import ComparisonReport
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run

STORED = Path(__file__).parent / "stored"
NLL = {"0.1.0": 6.534893798828125}
"""The loss on the validation set that the version itself measured."""


@pytest.fixture(params=sorted(folder.name for folder in STORED.iterdir()))
def version(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version whose files are in the working directory, in the folders `data` and `run`."""
    shutil.copytree(STORED / request.param, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return request.param


def test_its_model_computes_the_same(version: str) -> None:
    run = lamina.load("run")
    assert run.evaluate("valid").scores["valid"]["nll"] == pytest.approx(NLL[version], rel=1e-4)
    assert len(run.generate(["Las grisnil grinus rus."])) == 1


def test_its_files_are_read(version: str) -> None:
    summary = Run("run").summary()
    assert (summary.state, summary.step) == ("too short", 4)
    assert summary.final["nll"] == pytest.approx(NLL[version])
    assert len(Store.open(Path("data"))["train"]) == 200
    [listed] = lamina.list_runs(".")
    assert listed.step == 4
    compared = ComparisonReport.read(["run"])
    compared.save(Path("report.html"))
    assert "ResiDual" in Path("report.html").read_text(encoding="utf-8")


def test_its_diagnosis_is_read(version: str) -> None:
    [diagnosis] = diagnose_paths(["run/diagnosis/training.json"], Extent())
    assert diagnosis.schemes == ("resi-dual",)
    assert diagnosis.findings


def test_it_is_resumed(version: str) -> None:
    run = lamina.train("run", ["train.steps=6"], quiet=True)
    assert run.summary().step == 6
