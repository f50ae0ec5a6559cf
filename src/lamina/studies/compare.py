"""The same model and data under several schemes, depths and seeds, trained side by side.

    runs/<name>/
      b2t-12-seed1/       a run folder each, with a record of what its results depend on
      post-ln-12-seed1/   …

Killed, it goes on where it was. A finished run is reused while nothing that its results depend on has changed (see
`reuse`), and diagnosed again if only what its diagnoses depend on has; an outdated one is moved aside, never deleted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from lamina.config import to_toml
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.model.transformer import Transformer
from lamina.report.terminal.progress_table import ProgressTable
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.studies.cells import Cell
from lamina.studies.engines.local import Job, run_jobs
from lamina.studies.reuse import Fingerprint
from lamina.studies.worker import command, is_done
from lamina.tasks import build_task

MEMORY_SHARE = 0.7  # of the machine's memory, for all workers together
PROCESS_MEMORY = 400 * 2**20  # of a process before it has a model


@dataclass(frozen=True)
class Sharing:
    """How a machine is divided among runs."""

    workers: int
    threads: int


class BrokenOff(UserError):
    """Some runs did not get to an end; `others` did."""

    def __init__(self, message: str, others: Sequence[Path]) -> None:
        super().__init__(message)
        self.others = others


def compare(cells: Sequence[Cell], folder: Path, sharing: Sharing | None = None) -> dict[str, Path]:
    """Train every cell to its end; the run folders by name. Failed runs are results; a broken one is an error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    stores = [_try_out(cell, folder) for cell in cells]
    for cell, store in zip(cells, stores, strict=True):
        _refresh(cell, store, folder, console)
    sharing = sharing or share_machine(cells, folder)
    paths = {cell.name: folder / cell.name for cell in cells}
    jobs = [
        Job(cell.name, command(paths[cell.name], sharing.threads), RunFolder(paths[cell.name]).log)
        for cell in cells
        if not is_done(paths[cell.name], cell.config)
    ]
    table = ProgressTable({cell.name: (paths[cell.name], cell.config.train.steps) for cell in cells})
    try:
        with table.shown():
            codes = run_jobs(jobs, sharing.workers, table.update)
    except KeyboardInterrupt:
        console.print(f"Interrupted. What is done is kept in {folder}: the same command goes on from there.")
        raise
    broken = [name for name, code in codes.items() if code]
    if broken:
        raise BrokenOff(_explain(broken, paths), [path for name, path in paths.items() if name not in broken])
    return paths


def share_machine(cells: Sequence[Cell], folder: Path) -> Sharing:
    """A core for each run, as long as their memory fits: one thread each wastes less than two on one run.

    Memory that cannot be foreseen, as an adaptive softmax's, sets no limit.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    largest = max(cells, key=lambda cell: cell.depth if isinstance(cell.depth, int) else max(cell.depth))
    workers = min(len(cells), cores)
    with suppress(UserError):
        needed = Run(largest.config, folder / largest.name).plan().memory + PROCESS_MEMORY
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        workers = max(1, min(workers, int(total * MEMORY_SHARE // needed)))
    return Sharing(workers, max(1, cores // workers))


def _try_out(cell: Cell, folder: Path) -> Store:
    """Build the model where it costs nothing: a mistake that concerns one scheme is told before any is trained."""
    store = Run(cell.config, folder / cell.name).open_store()
    try:
        task = build_task(cell.config.task, store, cell.config.task_options)
        with torch.device("meta"):
            Transformer.build(task.model_options(cell.config.model))
    except UserError as error:
        raise UserError(f"{cell.name}: {error}") from error
    return store


def _refresh(cell: Cell, store: Store, folder: Path, console: Console) -> None:
    """Move a run aside whose results would be others now, and write down what they depend on."""
    run = RunFolder(folder / cell.name)
    now = Fingerprint.of(cell.config, store)
    if run.status() is not None:
        changes = now.changes_since(Fingerprint.load(run.fingerprint))
        if changes:
            aside = run.move_aside()
            console.print(f"{cell.name} is trained again ({'; '.join(changes)}); the former run is now {aside}")
    run.path.mkdir(parents=True, exist_ok=True)
    write_file(run.config, to_toml(cell.config.resolved(store)).encode())
    now.save(run.fingerprint)


def _explain(broken: Sequence[str], paths: dict[str, Path]) -> str:
    """What the first of them said last."""
    log = RunFolder(paths[broken[0]]).log
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    others = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0]} broke off{others}: {said[-1] if said else 'no message'}\nAll of it is in {log}"
