"""`lamina study`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from lamina.cli.app import app
from lamina.cli.studies import study
from lamina.errors import UserError

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
