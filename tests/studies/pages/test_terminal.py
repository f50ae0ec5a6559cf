"""Studies in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.ledger import run_study
from lamina.studies.pages.terminal import show_result, show_studies


def test_studies_are_listed_with_their_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_studies(tmp_path / "nothing")
    assert "not run" in capsys.readouterr().out
    result = run_study("xiong-fig3", tmp_path, "micro")
    file = result.write(tmp_path)
    show_studies(tmp_path)
    assert "undecided" in capsys.readouterr().out
    show_result(result, file, tmp_path / "page.html")
    shown = capsys.readouterr().out
    assert "X-06" in shown
    assert "page.html" in shown
