"""The selection of the given folders that a report shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.report.comparison_report import choose_run_folders


@pytest.fixture
def compared(tmp_path: Path) -> Path:
    for name in ("b2t-1-seed1", "b2t-1-seed1.former1", "pre-ln-1-seed1.former2"):
        (tmp_path / name).mkdir()
    (tmp_path / "report.html").touch()
    return tmp_path


def test_all_in_the_folder_of_a_comparison(compared: Path) -> None:
    """Files are left out, and so is a run that was moved aside, unless its successor is not given."""
    shown = choose_run_folders(sorted(compared.iterdir()))
    assert [path.name for path in shown] == ["b2t-1-seed1", "pre-ln-1-seed1.former2"]


def test_what_is_asked_for_by_name(compared: Path) -> None:
    former = compared / "b2t-1-seed1.former1"
    assert choose_run_folders([str(former)]) == [former]
    assert choose_run_folders([compared / "missing"]) == [compared / "missing"], (
        "whoever reads it says that it is no run"
    )


def test_a_run_given_twice_is_refused(compared: Path) -> None:
    run = compared / "b2t-1-seed1"
    for again in (run, f"{run}/", run / ".." / run.name, os.path.relpath(run)):
        with pytest.raises(UserError, match="b2t-1-seed1.* would count as two seeds"):
            choose_run_folders([run, again])
