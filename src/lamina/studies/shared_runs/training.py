"""Training of the runs that studies declare, as far as their numbers are not known yet.

    <folder>/
      runs.jsonl        the numbers of all runs that were trained here
      data/             the prepared data sets
      training/         the folders of runs that are being trained, or were interrupted; deleted when they end

Two studies that declare the same run share it. What a study measures of trained models (`Study.measure_trained`) is
measured before the weights are deleted, for every study that declares the run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from lamina.config import to_toml
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.lock import Lock
from lamina.files.progress import Progress, no_progress
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import RecordFile, StudyOrder
from lamina.run_folder.status import DIVERGED, REQUEUE
from lamina.runs.run import Run
from lamina.studies.engines import Engine, last_message
from lamina.studies.engines.choose import OpenEngine
from lamina.studies.engines.local import LocalEngine
from lamina.studies.result_table import ResultRow
from lamina.studies.shared_runs.archive import RunArchive
from lamina.studies.shared_runs.data_sets import DataName, open_data
from lamina.studies.shared_runs.declared import StudyRun, key_of
from lamina.studies.shared_runs.numbers import ALWAYS, Measured, RunNumbers, collect_numbers, rounded_row

POLL_SECONDS = 0.5


class Declaring(Protocol):
    """The part of a study that declares runs."""

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def measures_trained(self) -> bool: ...

    def runs(self, scale: str) -> Sequence[StudyRun]: ...

    def measure_trained(self, run: Run) -> Iterator[ResultRow]: ...


@dataclass(frozen=True)
class SeededRun:
    """A declared run with one of its seeds."""

    declared: StudyRun
    seed: int
    store: Store
    key: str


@dataclass
class SharedRuns:
    """The runs of all studies in a folder."""

    folder: Path
    scale: str
    known: Sequence[Path] = ()
    """Further folders with numbers of runs, which are only read."""
    measuring: Sequence[Declaring] = ()
    """The studies that measure trained models."""
    engine: OpenEngine | None = None
    """Makes what trains the runs; by default processes of this machine, at scale `micro` this process itself."""
    progress: Progress = no_progress
    train: bool = True
    """Whether runs are trained; otherwise only those that have ended are used."""
    _stores: dict[DataName, Store] = field(default_factory=dict)

    def rows(self, study: Declaring) -> Iterator[ResultRow]:
        """The results of a study's runs, after training those whose numbers are not known."""
        archive = RunArchive(self.folder, self.known)
        seeded = self.seeded(study)
        if self.train and (missing := _missing(study, seeded, archive)):
            self._train(missing, archive)
        left_out = {each.key for each in _missing(study, seeded, archive)}
        yield from _rows(study, [each for each in seeded if each.key not in left_out], archive)

    def count_missing(self, study: Declaring) -> int:
        """The number of a study's runs that have not ended yet."""
        seeded = self.seeded(study)
        return len({each.key for each in _missing(study, seeded, RunArchive(self.folder, self.known))})

    def seeded(self, study: Declaring) -> list[SeededRun]:
        """The runs of a study, one for each seed."""
        found = []
        for run in study.runs(self.scale):
            if run.data not in self._stores:
                self._stores[run.data] = open_data(run.data, self.scale, self.folder / "data", self.progress)
            store = self._stores[run.data]
            found += [SeededRun(run, seed, store, key_of(run.fingerprint(seed, store))) for seed in run.seeds]
        return found

    def _train(self, runs: Sequence[SeededRun], archive: RunArchive) -> None:
        """Train the runs and add their numbers to the archive."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.folder / "runs.owner")
        lock.acquire()
        try:
            paths = self._prepare_all(runs)
            engine = self.engine() if self.engine else self._own_engine(paths)
            for done, (path, code) in enumerate(_trained(paths, engine), start=1):
                numbers = numbers_file(path).read()
                if code not in (0, DIVERGED) or numbers is None:
                    raise UserError(f"{path} ended with an error: {last_message(path, code)}")
                archive.add(numbers)
                shutil.rmtree(path)
                self.progress("runs", done, len(paths))
        finally:
            lock.release()

    def prepare(self, study: Declaring) -> list[Path]:
        """Make the folders of the runs that have not ended yet, with their configs, for jobs that train them."""
        seeded = self.seeded(study)
        return self._prepare_all(_missing(study, seeded, RunArchive(self.folder, self.known)))

    def _prepare_all(self, runs: Sequence[SeededRun]) -> list[Path]:
        """The folders of the runs, seed by seed, so that after an interruption all conditions have equally many."""
        measured = {each.name: {run.key for run in self.seeded(each)} for each in self.measuring}
        unique = {each.key: each for each in sorted(runs, key=lambda each: each.seed)}
        return [self._prepare(each, measured) for each in unique.values()]

    def _own_engine(self, paths: Sequence[Path]) -> Engine:
        return InThisProcess() if self.scale == "micro" else LocalEngine.for_runs(len(paths), Run(paths[-1]))

    def _prepare(self, run: SeededRun, measured: dict[str, set[str]]) -> Path:
        """The folder of a run, with its config and the order to measure it; one that was interrupted is continued."""
        path = self.folder / "training" / run.key
        folder = RunFolder(path)
        config = run.declared.config(run.seed, str(run.store.folder))
        found = run.declared.fingerprint(run.seed, run.store)
        order = StudyOrder(
            key=run.key,
            data=run.declared.data,
            values={**run.declared.values, "seed": run.seed},
            studies=[name for name, keys in measured.items() if run.key in keys],
        )
        with folder.claim() as claimed:
            claimed.store_config(to_toml(config.resolved(run.store)))
            claimed.fingerprint.write(found)
            claimed.study_order.write(order)
        return path


class InThisProcess:
    """An engine that trains a run when it is submitted, in this process: for tests."""

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        done: Future[int] = Future()
        done.set_result(train_shared_run(run))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is left to end."""


def train_shared_run(path: Path) -> int:
    """Train the run of a folder as a study has ordered it, and write its numbers; returns the exit code."""
    run, began = Run(path), time.perf_counter()
    order, found = run.folder.study_order.read(), run.folder.fingerprint.read()
    assert order is not None
    assert found is not None
    try:
        status = run.train(quiet=True)
    finally:
        with suppress(UserError):  # an error of the training is more important
            run.folder.add_cost(time.perf_counter() - began, 0)
    if status.has_ended:
        cost = run.folder.cost.read()
        numbers = collect_numbers(run, order.data, order.values, found, order.key, cost.seconds if cost else 0.0)
        if not numbers.has_failed:
            numbers = numbers.model_copy(update={"measured": _measure(run, order.studies)})
        numbers_file(path).write(numbers)
    return status.exit_code


def numbers_file(path: Path) -> RecordFile[RunNumbers]:
    """The file of a run folder that holds the numbers of a run that has ended."""
    return RecordFile(RunFolder(path).study_numbers, RunNumbers)


def _measure(run: Run, studies: Sequence[str]) -> dict[str, Measured]:
    """What the studies measure of the trained model."""
    if not studies:
        return {}
    from lamina.studies.papers import STUDIES  # whose members declare runs by means of this package

    found = {name: STUDIES[name]() for name in studies}
    return {
        name: Measured(version=study.version, rows=tuple(map(rounded_row, study.measure_trained(run))))
        for name, study in found.items()
    }


def _missing(study: Declaring, runs: Sequence[SeededRun], archive: RunArchive) -> list[SeededRun]:
    """The runs that have to be trained."""
    return [each for each in runs if not _is_complete(archive.find(each.key), study)]


def _is_complete(numbers: RunNumbers | None, study: Declaring) -> bool:
    """Whether a run needs no training: its numbers are known, with what the study measures of trained models."""
    if numbers is None:
        return False
    if numbers.has_failed or not study.measures_trained:
        return True
    measured = numbers.measured.get(study.name)
    return measured is not None and measured.version == study.version


def _rows(study: Declaring, runs: Sequence[SeededRun], archive: RunArchive) -> Iterator[ResultRow]:
    """The rows of all runs. One that failed has None for everything that other runs on the same data have."""
    numbers = {each.key: archive.find(each.key) for each in runs}
    at_the_end = {key: found.at_the_end(study.name) for key, found in numbers.items() if found is not None}
    places = {data: dict.fromkeys(ALWAYS) for data in {each.declared.data for each in runs}}
    for each in runs:
        places[each.declared.data].update(dict.fromkeys(at_the_end[each.key]))
    for each in runs:
        found = numbers[each.key]
        assert found is not None
        values = list(at_the_end[each.key].items()) or [(place, None) for place in places[each.declared.data]]
        values += found.curves() if each.declared.curves else ()
        for (quantity, more), value in values:
            labels = {**each.declared.labels, **dict(more)}
            yield ResultRow(quantity=quantity, value=value, seed=each.seed, labels=labels)


def _trained(paths: Sequence[Path], engine: Engine) -> Iterator[tuple[Path, int]]:
    """Train all runs; yields each as it ends, with its exit code."""
    try:
        futures = {engine.submit(path): path for path in paths}
        while futures:
            for future in wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
                path, code = futures.pop(future), future.result()
                if code == REQUEUE:
                    futures[engine.submit(path)] = path
                else:
                    yield path, code
    finally:
        engine.shutdown(cancel_futures=True)
