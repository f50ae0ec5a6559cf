"""Calibration of the checks: a grid of small runs shows how well findings at initialisation predict failed runs.

For each learning rate, schemes × depths are compared on the embedded language of short sentences; an interrupted grid
is continued by the same command. Each run is diagnosed before its first step. `calibration_score` sets the thresholds
on one half of the cells and counts correct predictions on the other.

    python -m lamina.studies.calibration
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.diagnosis.results import Diagnosis
from lamina.files.atomic import write_file
from lamina.studies.calibration_score import CalibrationCell, RunOutcome, calibrate
from lamina.studies.cells import make_cells
from lamina.studies.compare import compare
from lamina.studies.demo import CONFIG, DATA
from lamina.tasks import build_task
from lamina.training.config import RunConfig

SCHEMES = (
    "post-ln",
    "pre-ln",
    "post-ln/pre-ln",  # Admin's table 1: it diverges though nothing vanishes
    "b2t",
    "b2t-no-norm",
    "resi-dual",
    "admin",
    "deep-norm",
    "look-linear",
    "depth-scaled",
)
DEPTHS = (3, 6, 12)
LEARNING_RATES = (1e-3, 3e-3, 1e-2)
OVERRIDES = ("model.model_dim=48", "model.feed_forward_dim=96", "model.dropout=0", "train.samples=0")
"""The values that differ from the config of the demonstration."""


def run_grid(
    folder: Path, *, learning_rates: Sequence[float] = LEARNING_RATES, seeds: int = 1, steps: int = 200
) -> tuple[dict[CalibrationCell, RunOutcome], dict[CalibrationCell, Diagnosis]]:
    """Train the runs that have no result yet; how every run ended, and its diagnosis at initialisation."""
    store = prepare(source_options(DATA, ".", str(folder / "data")))
    unigram_nll = build_task("translation", store, {}).unigram_nll("valid")
    file = folder / "calibration.toml"
    write_file(file, CONFIG.format(store=store.folder, steps=steps, warmup=max(1, steps // 4)).encode())
    outcomes, diagnoses = dict[CalibrationCell, RunOutcome](), dict[CalibrationCell, Diagnosis]()
    for learning_rate in learning_rates:
        values = read_values(
            file, [*OVERRIDES, f"train.validate_every={steps}", f"schedule.learning_rate={learning_rate}"], RunConfig
        )
        cells = make_cells(values, SCHEMES, DEPTHS, seeds)
        place = folder / f"rate-{learning_rate:g}"
        report = compare(cells, place, place / "report.html")
        for cell, result in zip(cells, report.results, strict=True):
            assert isinstance(cell.depth, int)
            assert result.start is not None
            key = CalibrationCell("/".join(cell.schemes), cell.depth, learning_rate, cell.seed)
            losses = [loss for _, loss in result.validation_loss]
            outcomes[key] = RunOutcome(result.state, result.reason, losses[-1] if losses else None, unigram_nll)
            diagnoses[key] = result.start
    return outcomes, diagnoses


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Calibrate the thresholds of the checks on a grid of small runs.")
    parser.add_argument("--folder", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=LEARNING_RATES)
    parser.add_argument("--rates", type=float, nargs="+", help=argparse.SUPPRESS)  # the former name, for one version
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.rates:
        print("--rates is now called --learning-rates; the next version will not know it", file=sys.stderr)
        given.learning_rates = given.rates
    given.folder.mkdir(parents=True, exist_ok=True)
    result = calibrate(
        *run_grid(given.folder, learning_rates=given.learning_rates, seeds=given.seeds, steps=given.steps)
    )
    write_file(given.folder / "calibration.json", json.dumps(result.numbers(), indent=1).encode())
    write_file(given.folder / "calibration.md", result.markdown().encode())
    print(result.markdown())


if __name__ == "__main__":
    main()
