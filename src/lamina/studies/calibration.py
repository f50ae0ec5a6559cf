"""Does the verdict at the start foretell which runs fail? A grid of schemes × depths × rates answers.

Each cell trains a small model on the embedded translation language and is kept as a JSON file, so a run that is
stopped goes on where it was. Each model is also diagnosed before its first step. `calibration_score` sets the
thresholds on one half of the cells and counts hits on the other.

    python -m lamina.studies.calibration --folder runs/calibration --workers 2 --steps 150
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lamina.data.atomic import write_file
from lamina.data.order import OrderOptions
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.diagnose.examine import examine
from lamina.diagnose.results import Diagnosis
from lamina.diagnose.subject import Subject
from lamina.model.transformer import Transformer
from lamina.studies.calibration_score import Cell, Outcome, calibrate, hash_of
from lamina.tasks import build_task
from lamina.tasks.base import Inputs
from lamina.train.config import RunConfig
from lamina.train.run_folder import RunFolder
from lamina.train.runs import train

SCHEMES = (
    "post-ln",
    "pre-ln",
    "post-ln/pre-ln",  # encoder and decoder: Admin's table 1, which diverges though nothing vanishes
    "b2t",
    "b2t-no-norm",
    "resi-dual",
    "admin",
    "deep-norm",
    "look-linear",
    "depth-scaled",
)
DEPTHS = (3, 6, 12)
RATES = (3e-3, 1e-2)
WIDTH, TOKENS, BATCHES = 48, 384, 2
OUTCOME = [field.name for field in fields(Outcome)]
SENTENCES = {"train": 20_000, "valid": 100}


def grid(rates: Sequence[float] = RATES, seeds: int = 1) -> list[Cell]:
    """All cells, in an order that makes any beginning of it a fair sample."""
    cells = [Cell(*each) for each in product(SCHEMES, DEPTHS, rates, range(1, seeds + 1))]
    return sorted(cells, key=lambda cell: hash_of(cell.name))


def run_grid(folder: Path, cells: Sequence[Cell], *, steps: int, workers: int = 1) -> None:
    """Train what is not there yet."""
    _store(folder)  # prepared once, before the workers look for it
    missing = [cell for cell in cells if not _file(folder, cell, steps).exists()]
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited by the workers
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(train_cell, folder, cell, steps): cell for cell in missing}
        try:
            for number, done in enumerate(as_completed(running), 1):
                print(f"{number}/{len(missing)} {running[done].name} {done.result()}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # a mistake shows in the first cell, not after the last
            raise


def train_cell(folder: Path, cell: Cell, steps: int) -> Outcome:
    began = time.perf_counter()
    run = folder / "runs" / cell.name
    config = config_of(folder, cell, steps)
    status = train(config, run, quiet=True)
    losses = [line["valid_nll"] for line in RunFolder(run).metrics.read() if line.get("valid_nll") is not None]
    outcome = Outcome(
        state=status.state,
        reason=status.reason,
        valid_nll=losses[-1] if losses else None,
        unigram_nll=build_task(config.task, _store(folder), config.task_options).unigram_likelihood("valid"),
        seconds=time.perf_counter() - began,
    )
    write_file(_file(folder, cell, steps), json.dumps({"cell": asdict(cell), **asdict(outcome)}, indent=1).encode())
    shutil.rmtree(run)  # nothing reads its checkpoints
    return outcome


def read_outcomes(folder: Path, cells: Iterable[Cell], steps: int) -> dict[Cell, Outcome]:
    """Of the cells that have been run."""
    files = {cell: _file(folder, cell, steps) for cell in cells}
    found = {cell: json.loads(file.read_bytes()) for cell, file in files.items() if file.exists()}
    return {cell: Outcome(**{name: values[name] for name in OUTCOME}) for cell, values in found.items()}


def diagnosis_of(folder: Path, cell: Cell) -> Diagnosis:
    """The diagnosis of a cell's model before its first step; the rate makes no difference to it."""
    file = folder / "diagnoses" / f"{replace(cell, rate=0).name}.json"
    if not file.exists():
        _diagnose(folder, cell).write(file)
    return Diagnosis.read(file)


def _diagnose(folder: Path, cell: Cell) -> Diagnosis:
    task = build_task("translation", _store(folder), {})
    order = OrderOptions(max_tokens=TOKENS, oversize="alone")
    batches = task.batches("train", order, seed=cell.seed)
    inputs = [task.inputs(batches.batch(0, number)) for number in range(BATCHES)]
    torch.manual_seed(cell.seed)
    model = Transformer.build(task.model_options(model_of(cell)))
    task.calibrate(model, inputs[0])

    def run(each: Inputs, model: nn.Module) -> Tensor:
        losses = task.losses(model, each)
        return losses.smoothed / losses.count

    return examine(Subject(cell.name, [partial(run, each) for each in inputs], model=model))


def config_of(folder: Path, cell: Cell, steps: int) -> RunConfig:
    values = {
        "seed": cell.seed,
        "task": "translation",
        "data": {"store": str(folder / "store"), "max_tokens": TOKENS, "oversize": "alone"},
        "model": model_of(cell),
        "schedule": {"learning_rate": cell.rate, "warmup_steps": max(1, steps // 4)},
        "train": {"steps": steps, "validate_every": 0, "save_every": 0, "samples": 0, "threads": 1, "device": "cpu"},
    }
    return RunConfig.read(values, where=cell.name)


def model_of(cell: Cell) -> dict[str, Any]:
    schemes = cell.scheme.split("/")
    return {
        "residual": schemes[0] if len(schemes) == 1 else tuple(schemes),
        "num_layers": cell.depth,
        "model_dim": WIDTH,
        "feed_forward_dim": 2 * WIDTH,
        "num_heads": 4,
        "dropout": 0.0,
    }


def _file(folder: Path, cell: Cell, steps: int) -> Path:
    return folder / "outcomes" / f"{cell.name}-{steps}.json"


def _store(folder: Path) -> Store:
    sets = {split: [f"translation:{size}"] for split, size in SENTENCES.items()}
    return prepare(
        source_options("embedded-text", ".", str(folder / "store"), test=(), tokenizer={"size": 600}, **sets)
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Calibrate the thresholds of the verdicts on a grid of small runs.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--score-only", action="store_true", help="train nothing; score the cells that are there")
    given = parser.parse_args(words)
    torch.set_num_threads(1)  # small matrices: a second thread only waits
    for kind in ("outcomes", "diagnoses"):
        (given.folder / kind).mkdir(parents=True, exist_ok=True)
    cells = grid(given.rates, given.seeds)
    if not given.score_only:
        run_grid(given.folder, cells, steps=given.steps, workers=given.workers)
    outcomes = read_outcomes(given.folder, cells, given.steps)
    result = calibrate(outcomes, {cell: diagnosis_of(given.folder, cell) for cell in outcomes})
    write_file(given.folder / "calibration.json", json.dumps(result.numbers(), indent=1).encode())
    write_file(given.folder / "calibration.md", result.markdown().encode())
    print(result.markdown())


if __name__ == "__main__":
    main()
