"""Runs of studies: trained once, shared, continued, and kept as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.studies.papers.trained_models import model_run
from lamina.studies.result_table import ResultRow, ResultTable
from lamina.studies.shared_runs import training
from lamina.studies.shared_runs.archive import RunArchive, read_lines
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.shared_runs.training import InThisProcess, SharedRuns, train_shared_run
from lamina.studies.study import Exhibit, Study
from support.made_runs import made_numbers


class Losses(Study):
    """A study of two runs."""

    paper = "b2t"
    title = "Losses"
    schemes: Sequence[str] = ("pre-ln", "post-ln")

    def runs(self, scale: str) -> list[StudyRun]:
        return [model_run(scale, "iwslt", scheme=each, depth="6-6", curves=True) for each in self.schemes]

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return []


class Sizes(Losses):
    """A study that measures the trained model of one of them."""

    schemes = ("pre-ln",)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        count = sum(parameter.numel() for parameter in run.model.parameters())
        yield ResultRow(quantity="parameters", value=float(count), labels={"of": "model"})


class Counting(InThisProcess):
    """An engine that counts the runs that it trains, and can end before all are trained."""

    def __init__(self, most: int = 100) -> None:
        self.trained: list[Path] = []
        self.most = most

    def submit(self, run: Path) -> Future[int]:
        if len(self.trained) == self.most:
            raise KeyboardInterrupt
        self.trained.append(run)
        return super().submit(run)


def test_a_run_is_trained_once_and_its_folder_deleted(tmp_path: Path) -> None:
    engine = Counting()
    shared = SharedRuns(tmp_path, "micro", engine=lambda: engine)
    first = ResultTable(shared.rows(Losses()))
    assert len(engine.trained) == 2
    assert not list((tmp_path / "training").iterdir())
    assert list(SharedRuns(tmp_path, "micro", engine=lambda: engine).rows(Losses())) == list(first)
    elsewhere = SharedRuns(tmp_path / "other", "micro", known=[tmp_path], engine=lambda: engine)
    assert list(elsewhere.rows(Losses())) == list(first)
    assert len(engine.trained) == 2
    assert first.sample("trained", scheme="pre-ln", depth="6-6").by_seed == {1: 1.0}
    assert first.sample("bleu", scheme="post-ln").values
    losses = first.along("step", "validation loss by step", scheme="pre-ln")
    assert first.sample("validation loss", scheme="pre-ln").mean == list(losses.values())[-1].mean


def test_an_interrupted_study_continues(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(SharedRuns(tmp_path, "micro", engine=lambda: Counting(most=1)).rows(Losses()))
    rest = Counting()
    assert list(SharedRuns(tmp_path, "micro", engine=lambda: rest).rows(Losses()))
    assert len(rest.trained) <= 2
    assert len(list(read_lines(tmp_path / "runs.jsonl"))) == 2


def test_a_trained_model_is_measured_for_every_study_that_declares_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.studies import papers

    monkeypatch.setattr(papers, "STUDIES", {Sizes.name: Sizes})
    engine = Counting()
    shared = SharedRuns(tmp_path, "micro", measuring=[Sizes()], engine=lambda: engine)
    list(shared.rows(Losses()))
    rows = ResultTable(shared.rows(Sizes()))
    assert len(engine.trained) == 2
    assert rows.sample("parameters", of="model", scheme="pre-ln").mean > 1000
    monkeypatch.setattr(Sizes, "version", 2)
    list(shared.rows(Sizes()))
    assert len(engine.trained) == 3


def test_a_failed_run_has_no_values_but_its_losses(tmp_path: Path) -> None:
    shared = SharedRuns(tmp_path, "micro")
    pre, post = (each.key for each in shared.seeded(Losses()))
    archive = RunArchive(tmp_path)
    archive.add(made_numbers(pre))
    archive.add(made_numbers(post, state="failed", scores={}))
    rows = ResultTable(shared.rows(Losses()))
    for quantity in ("trained", "validation loss", "bleu"):
        assert rows.sample(quantity, scheme="pre-ln").values
        assert rows.sample(quantity, scheme="post-ln").by_seed == {1: None}
    assert rows.sample("test bleu", scheme="post-ln", set=2010).num_failed == 1
    assert rows.sample("test bleu", scheme="pre-ln", set=2010).mean == 11.0
    assert rows.sample("validation loss by step", scheme="post-ln", step=2).mean == 5.25


def test_a_run_that_ends_with_an_error_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path) -> int:
        (path / "log.txt").write_text("the last words\n")
        return 2

    monkeypatch.setattr(training, "train_shared_run", killed)
    with pytest.raises(UserError, match="ended with an error: the last words"):
        list(SharedRuns(tmp_path, "micro").rows(Losses()))


@pytest.mark.slow
def test_runs_train_in_processes_of_their_own(tmp_path: Path) -> None:
    from lamina.studies.engines.local import LocalEngine

    alone = list(SharedRuns(tmp_path / "alone", "micro").rows(Losses()))
    engine = LocalEngine(2)
    assert list(SharedRuns(tmp_path / "processes", "micro", engine=lambda: engine).rows(Losses())) == alone


def test_the_order_of_a_study_is_kept_with_the_run(tmp_path: Path) -> None:
    class Stopped(InThisProcess):
        def submit(self, run: Path) -> Future[int]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(SharedRuns(tmp_path, "micro", engine=Stopped).rows(Losses()))
    path = next((tmp_path / "training").iterdir())
    assert train_shared_run(path) == 0
    numbers = training.numbers_file(path).read()
    assert numbers is not None
    assert numbers.key == path.name
    assert numbers.values["seed"] == 1
    assert numbers.state == "too short"
    assert numbers.seconds > 0
