"""Compare schemes: the same model and data under several schemes, depths and seeds, trained side by side.

    runs/<name>/
      b2t-12-seed1/       a run folder each, with a record of what its results depend on
      post-ln-12-seed1/   …
      report.html

An interrupted comparison is continued by the same command. A finished run is reused while nothing that its results
depend on has changed (see `reuse`), and diagnosed again if only something that its diagnoses depend on has changed. The
folder of an outdated run is renamed, never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path

import torch
from rich.console import Console

from lamina.config import to_toml
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.progress import PATIENCE, progress_bar
from lamina.model.options import pair
from lamina.model.transformer import Transformer
from lamina.report.comparison_report import ComparisonReport, check_report_file
from lamina.report.terminal.progress_table import ProgressTable
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import DIVERGED, REQUEUE
from lamina.runs.run import Run
from lamina.studies.cells import Cell, GridCell, is_done
from lamina.studies.engines import Engine, last_message
from lamina.studies.engines.local import LocalEngine
from lamina.studies.reuse import changes_between, fingerprint
from lamina.tasks import build_task
from lamina.terminal import open_console
from lamina.training.start_from import start_model

POLL_SECONDS = 0.5


class IncompleteComparison(UserError):
    """Some runs ended with an error; `report` has the others, if there are any."""

    def __init__(self, message: str, report: ComparisonReport | None = None) -> None:
        super().__init__(message)
        self.report = report


def compare(
    cells: Sequence[GridCell], folder: Path, report: str | Path, *, title: str = "", engine: Engine | None = None
) -> ComparisonReport:
    """Train every cell that has no result yet, and write the report to a file.

    A run that diverged is a result. If some end with an error, the others are reported before that is raised.
    """
    file = check_report_file(report)
    paths = {cell.name: folder / cell.name for cell in cells}
    errors = train_cells(cells, folder, engine)
    trained = [path for name, path in paths.items() if name not in errors]
    compared = ComparisonReport.read(trained) if trained else None
    if compared is not None:
        compared.save(file, title)
    if errors:
        reported = f"\nThe report of the other runs: {file}" if compared else ""
        raise IncompleteComparison(describe_errors(errors, folder) + reported, compared)
    assert compared is not None
    return compared


def describe_errors(errors: Mapping[str, str], folder: Path) -> str:
    """The first of the errors that `train_cells` returned, the number of others, and where its log is."""
    name, message = next(iter(errors.items()))
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{name} ended with an error{others}: {message}\nIts log is {RunFolder(folder / name).log}"


def train_cells(cells: Sequence[Cell], folder: Path, engine: Engine | None = None) -> dict[str, str]:
    """Train every cell that has no result yet; returns the last message of each that ended with an error, by name."""
    console = open_console(stderr=True)
    missing = prepare_cells(cells, folder)
    if engine is None:
        largest = max(cells, key=_size)
        engine = LocalEngine.for_runs(len(cells), Run(largest.config, folder / largest.name))
    waiting = [cell for cell in cells if folder / cell.name in missing]
    table = ProgressTable({cell.name: (folder / cell.name, cell.config.train.steps) for cell in cells})
    try:
        with table.shown():
            codes = _run(waiting, folder, engine, table)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Finished work is kept in {folder}: the same command continues from there.")
        raise
    return {name: last_message(folder / name, code) for name, code in codes.items() if code not in (0, DIVERGED)}


def prepare_cells(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Make the run folders of all cells; returns those that have no result yet."""
    console = open_console(stderr=True)
    stores = [_build_on_meta(cell, folder) for cell in cells]  # all of them before anything is written
    for cell, store in zip(cells, stores, strict=True):
        _prepare_folder(cell, store, folder, console)
    return [
        folder / cell.name for cell in cells if not is_done(folder / cell.name, cell.config, diagnose=cell.is_diagnosed)
    ]


def _run(cells: Sequence[Cell], folder: Path, engine: Engine, table: ProgressTable) -> dict[str, int]:
    """The exit codes of the runs, by name. One that asks to be put back into the queue is submitted again."""
    codes: dict[str, int] = {}
    try:
        futures = {engine.submit(folder / cell.name, diagnose=cell.is_diagnosed): cell for cell in cells}
        while futures:
            table.update({cell.name for future, cell in futures.items() if future.running()})
            for future in wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
                cell = futures.pop(future)
                codes[cell.name] = future.result()
                if codes[cell.name] == REQUEUE:
                    futures[engine.submit(folder / cell.name, diagnose=cell.is_diagnosed)] = cell
        table.update(set())
    finally:
        engine.shutdown(cancel_futures=True)
    return codes


def _size(cell: Cell) -> tuple[int, int]:
    """The number of layers and the size of a batch, which determine the memory of a run among similar ones."""
    data = cell.config.data
    return max(pair(cell.config.model.num_layers)), data.batch_examples or data.max_tokens or 0


def _build_on_meta(cell: Cell, folder: Path) -> Store:
    """Build the model without memory, so that a mistake in one scheme's options is reported before any training."""
    with progress_bar(PATIENCE) as progress:
        store = Run(cell.config, folder / cell.name).open_store(progress)
    try:
        task = build_task(cell.config.task, store, cell.config.task_options)
        with torch.device("meta"):
            model = Transformer.build(task.model_options(cell.config.model))
        start_model(cell.config, store, model)  # copies nothing, but compares names and shapes
    except UserError as error:
        raise UserError(f"{cell.name}: {error}") from error
    return store


def _prepare_folder(cell: Cell, store: Store, folder: Path, console: Console) -> None:
    """Rename the folder of a run whose results are outdated, and record what the new results depend on.

    The folder is claimed first, so that a run that another process trains is neither renamed nor changed.
    """
    run = RunFolder(folder / cell.name)
    now = fingerprint(cell.config, store)
    if run.status() is not None:
        changes = changes_between(run.fingerprint.read(), now)
        if changes:
            with run.claim():
                aside = run.move_aside()
            console.print(f"{cell.name} is trained again ({'; '.join(changes)}); the former run is now {aside}")
    with RunFolder(run.path).claim() as claimed:
        claimed.store_config(to_toml(cell.config.resolved(store)))
        claimed.fingerprint.write(now)
