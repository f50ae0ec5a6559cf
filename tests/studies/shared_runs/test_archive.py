"""The file of the numbers of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.result_table import ResultRow
from lamina.studies.shared_runs.archive import RUNS, RunArchive
from lamina.studies.shared_runs.numbers import Measured
from support.made_runs import made_numbers


def test_numbers_are_found_again_by_their_key(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path)
    assert archive.find("a") is None
    archive.add(made_numbers("a"))
    archive.add(made_numbers("b", state="failed"))
    again = RunArchive(tmp_path)
    assert again.find("a") == made_numbers("a")
    assert again.find("b") == made_numbers("b", state="failed")


def test_numbers_of_other_folders_are_read_and_not_written(tmp_path: Path) -> None:
    RunArchive(tmp_path / "ledger").add(made_numbers("a"))
    archive = RunArchive(tmp_path / "own", [tmp_path / "ledger", tmp_path / "missing"])
    assert archive.find("a") is not None
    assert not (tmp_path / "own").exists()


def test_of_two_lines_with_one_key_the_later_counts_with_the_measurements_of_both(tmp_path: Path) -> None:
    def measured(study: str) -> dict[str, Measured]:
        return {study: Measured(version=1, rows=(ResultRow(quantity="x", value=1.0),))}

    archive = RunArchive(tmp_path)
    archive.add(made_numbers("a", seconds=1.0, measured=measured("b2t-fig5")))
    archive.add(made_numbers("a", seconds=2.0, measured=measured("admin-fig7")))
    found = RunArchive(tmp_path).find("a")
    assert found is not None
    assert found.seconds == 2.0
    assert set(found.measured) == {"b2t-fig5", "admin-fig7"}


def test_an_incomplete_last_line_is_dropped_and_another_one_is_an_error(tmp_path: Path) -> None:
    RunArchive(tmp_path).add(made_numbers("a"))
    whole = (tmp_path / RUNS).read_bytes()
    (tmp_path / RUNS).write_bytes(whole + whole[:40])
    archive = RunArchive(tmp_path)
    assert archive.find("a") is not None
    archive.add(made_numbers("b"))
    assert RunArchive(tmp_path).find("b") is not None
    (tmp_path / RUNS).write_bytes(b"{}\n" + whole)
    with pytest.raises(UserError, match=r"runs\.jsonl:1: not the numbers of a run"):
        RunArchive(tmp_path)


def test_chosen_runs_are_written_sorted_by_key(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path)
    for key in ("c", "a", "b"):
        archive.add(made_numbers(key))
    archive.write(tmp_path / "ledger" / RUNS, ["c", "a", "unknown"])
    lines = (tmp_path / "ledger" / RUNS).read_text().splitlines()
    assert [line[8] for line in lines] == ["a", "c"]
