"""`lamina study` and `lamina ledger`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli.app import app
from lamina.cli.studies import study
from lamina.errors import UserError
from lamina.studies.ledger import StudyResult
from lamina.studies.papers import STUDIES
from support.made_runs import made_study_result

runner = CliRunner()


def test_without_a_name_the_studies_are_listed(tmp_path: Path) -> None:
    result = runner.invoke(app, ["study", "--folder", str(tmp_path)])
    assert result.exit_code == 0
    assert "xiong-fig3" in result.output


def test_a_study_writes_its_numbers_and_its_page(tmp_path: Path) -> None:
    result = runner.invoke(app, ["study", "xiong-fig3", "--scale", "micro", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "xiong-fig3.micro.json").is_file()
    assert (tmp_path / "xiong-fig3.micro.html").is_file()


def test_unknown_names_and_scales_are_refused_before_the_work(tmp_path: Path) -> None:
    assert study.__doc__
    for arguments in (["nonsense"], ["xiong-fig3", "--scale", "huge"], ["xiong-fig3", "--output", "x.pdf"]):
        result = runner.invoke(app, ["study", *arguments, "--folder", str(tmp_path)])
        assert isinstance(result.exception, UserError)
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_lists_every_claim(tmp_path: Path) -> None:
    result = runner.invoke(app, ["ledger", "--folder", str(tmp_path / "runs"), "--output", str(tmp_path / "ledger")])
    assert result.exit_code == 0
    assert "165 were not run" in result.output
    assert (tmp_path / "ledger" / "index.html").is_file()


def test_all_runs_what_has_no_result_and_names_studies_that_end_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.studies import ledger

    asked: list[str] = []

    def run_study(name: str, *_: object, **__: object) -> StudyResult:
        asked.append(name)
        if name == "b2t-fig6":
            raise UserError("no room on the disk")
        return made_study_result(name)

    monkeypatch.setattr(ledger, "STUDIES", {name: STUDIES[name] for name in ("b2t-fig6", "b2t-fig1", "b2t-fig9")})
    monkeypatch.setattr(ledger, "run_study", run_study)
    made_study_result("b2t-fig9").write(tmp_path)
    result = runner.invoke(app, ["study", "all", "--folder", str(tmp_path)])
    assert asked == ["b2t-fig6", "b2t-fig1"]
    assert result.exit_code != 0
    assert "b2t-fig1: 0 claims hold" in result.output
    assert (tmp_path / "b2t-fig1.tiny.json").is_file()


def test_emit_writes_job_files_and_trains_nothing(tmp_path: Path) -> None:
    options = ["--scale", "micro", "--folder", str(tmp_path), "--ledger", str(tmp_path / "none")]
    result = runner.invoke(app, ["study", "xiong-fig6", *options, "--emit", "snakemake"])
    assert result.exit_code == 0, result.output
    assert "3 runs" in result.output
    rules = (tmp_path / "jobs" / "Snakefile").read_text()
    assert rules.count("rule run_") == 3
    assert not (tmp_path / "runs.jsonl").exists()
    assert len(list((tmp_path / "training").iterdir())) == 3


def test_without_training_a_study_says_how_many_runs_are_missing(tmp_path: Path) -> None:
    options = ["--scale", "micro", "--folder", str(tmp_path), "--ledger", str(tmp_path / "none")]
    result = runner.invoke(app, ["study", "xiong-fig6", *options, "--no-train"])
    assert result.exit_code == 0, result.output
    assert "3 of 3 runs are missing" in " ".join(result.output.split())
    made = StudyResult.read(tmp_path / "xiong-fig6.micro.json")
    assert made.missing == 3
    assert not made.is_up_to_date
