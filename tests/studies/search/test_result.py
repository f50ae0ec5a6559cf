"""The result of a search: the best by the mean and by seed, runs without a metric, and a whole search of small runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.runs.summary import RunSummary
from lamina.studies.search import result as module
from lamina.studies.search.result import IncompleteSearch, SearchResult, run_search
from lamina.studies.search.settings import read_search
from support.commands import invoke
from support.small_runs import config_for

ACCURACY: dict[tuple[int, int], float | None] = {
    (3, 1): 70.0, (3, 2): 72.0, (3, 3): 71.0,
    (5, 1): 69.0, (5, 2): 90.0, (5, 3): None,
    (8, 1): 60.0, (8, 2): 60.0, (8, 3): 75.0,
}  # fmt: skip
VALUES = {"task": "classification", "search": {"seeds": 3, "train": {"epochs": [3, 5, 8]}}}


def read_with(
    monkeypatch: pytest.MonkeyPatch, accuracy: Mapping[tuple[int, int], float | None], errors: Mapping[str, str]
) -> SearchResult:
    """The result of runs with these accuracies, by epochs and seed; None for one that diverged."""
    settings, cells = read_search(VALUES, "own.toml")
    known = {cell.name: accuracy[int(cell.setting.cells[0]), cell.seed] for cell in cells}

    class PlayedRun:
        def __init__(self, path: Path) -> None:
            self.name = path.name

        def summary(self) -> RunSummary:
            value = known[self.name]
            state, reason = ("finished", "") if value is not None else ("failed", "the loss is not finite")
            return RunSummary(self.name, state, reason, 9, 9, 0.5, {} if value is None else {"accuracy": value})

    monkeypatch.setattr(module, "Run", PlayedRun)
    return SearchResult.read(settings, cells, Path("runs"), errors)


def test_the_best_by_the_mean_and_the_best_of_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read_with(monkeypatch, ACCURACY, {})
    assert [each.setting.cells for each in result.ranked] == [("3",), ("8",), ("5",)], "a failed run ranks last"
    assert result.best is not None
    assert result.best.scores.by_seed == {1: 70.0, 2: 72.0, 3: 71.0}
    interval = result.best.scores.interval()
    assert interval.high - 71.0 == pytest.approx(4.302653 * statistics.stdev([70, 71, 72]) / 3**0.5, rel=1e-5)
    assert result.best_of_each_seed.by_seed == {1: 70.0, 2: 90.0, 3: 75.0}
    assert {seed: chosen and chosen[0].cells for seed, chosen in result.chosen_by_seed.items()} == {
        1: ("3",), 2: ("5",), 3: ("8",)
    }  # fmt: skip
    assert result.ranked[-1].states == {"failed": 1}
    assert result.reasons == {"epochs5-seed3": "the loss is not finite"}


def test_a_metric_of_which_less_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.tasks import TASKS

    monkeypatch.setattr(TASKS["classification"], "higher_is_better", False)
    result = read_with(monkeypatch, ACCURACY, {})
    assert result.ranked[0].setting.cells == ("8",)
    assert result.best_of_each_seed.by_seed == {1: 60.0, 2: 60.0, 3: 71.0}


def test_without_any_metric_there_is_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read_with(monkeypatch, dict.fromkeys(ACCURACY), {"epochs3-seed1": "no room"})
    assert result.best is None
    assert result.best_of_each_seed.values == []
    assert result.ranked[0].states == {"error": 1, "failed": 2}


@pytest.fixture
def values(stores: Path) -> dict[str, Any]:
    config = config_for("classification", stores, train={"steps": 3, "validate_every": 0, "save_every": 0})
    return config.model_dump() | {"search": {"seeds": 2, "schedule": {"learning_rate": [1e-3, 1e-2]}}}


@pytest.mark.slow
def test_runs_are_trained_once_not_diagnosed_and_reused(values: dict[str, Any], tmp_path: Path) -> None:
    first = lamina.search(values, folder=tmp_path, report=tmp_path / "search.md")
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert len(folders) == 4
    assert not any((path / "diagnosis").exists() and list((path / "diagnosis").glob("*.json")) for path in folders)
    stamps = [(path / "metrics.jsonl").stat().st_mtime_ns for path in folders]
    for each in first.ranked:
        for seed, value in each.scores.by_seed.items():
            run = Run(tmp_path / f"learning_rate{each.setting.cells[0]}-seed{seed}")
            assert value == run.summary().final["accuracy"]
    values["search"]["seeds"] = 1
    again = lamina.search(values, folder=tmp_path, report=tmp_path / "search.html")
    assert [(path / "metrics.jsonl").stat().st_mtime_ns for path in folders] == stamps
    assert again.ranked[0].scores.by_seed.keys() == {1}
    assert (tmp_path / "search.html").read_text().startswith("<!doctype html>")


class FailingEngine:
    """Trains nothing: every run ends with an error."""

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        assert not diagnose
        RunFolder(run).log.write_text("lamina: the disk is full\n")
        ended: Future[int] = Future()
        ended.set_result(2)
        return ended

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...


def test_runs_that_end_with_an_error_are_named(values: dict[str, Any], tmp_path: Path) -> None:
    settings, cells = read_search(values, "own.toml")
    with pytest.raises(IncompleteSearch, match=r"seed\d ended with an error \(and 3 more\): .*disk is full") as raised:
        run_search(settings, cells, tmp_path, FailingEngine())
    assert raised.value.result.best is None
    assert len(raised.value.result.errors) == 4


def test_the_ending_of_the_page_is_refused_before_any_training(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ends in one of"):
        lamina.search(values, folder=tmp_path / "runs", report="search.pdf")
    assert not (tmp_path / "runs").exists()


def test_a_config_without_the_section(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("seed = 1\n")
    ended = invoke("search", str(tmp_path / "own.toml"))
    assert isinstance(ended.exception, UserError)
    assert "no values to search" in str(ended.exception)
