"""Does the verdict at the start foretell which runs fail? A grid of schemes × depths × rates answers.

For each rate there is a comparison of small models on the embedded language of short sentences, so a grid that is
stopped goes on where it was. Each run is diagnosed before its first step. `calibration_score` sets the thresholds on
one half of the cells and counts hits on the other.

    python -m lamina.studies.calibration
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.diagnosis.results import Diagnosis
from lamina.files.atomic import write_file
from lamina.report.run_results import read_run_results
from lamina.studies.calibration_score import Cell, Outcome, calibrate
from lamina.studies.cells import make_cells
from lamina.studies.compare import compare
from lamina.studies.demo import CONFIG, DATA
from lamina.tasks import build_task

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
RATES = (1e-3, 3e-3, 1e-2)
CHANGES = ("model.model_dim=48", "model.feed_forward_dim=96", "model.dropout=0", "train.samples=0")  # to the demo's


def run_grid(
    folder: Path, *, rates: Sequence[float] = RATES, seeds: int = 1, steps: int = 200
) -> tuple[dict[Cell, Outcome], dict[Cell, Diagnosis]]:
    """Train what is not there yet; how every run ended, and how its model looked before."""
    store = prepare(source_options(DATA, ".", str(folder / "data")))
    unigram = build_task("translation", store, {}).unigram_nll("valid")
    config = folder / "calibration.toml"
    write_file(config, CONFIG.format(store=store.folder, steps=steps).encode())
    lengths = [f"train.validate_every={steps}", f"schedule.warmup_steps={max(1, steps // 4)}"]
    outcomes, diagnoses = dict[Cell, Outcome](), dict[Cell, Diagnosis]()
    for rate in rates:
        words = [*CHANGES, *lengths, f"schedule.learning_rate={rate}"]
        cells = make_cells(config, words, SCHEMES, [str(depth) for depth in DEPTHS], seeds)
        paths = compare(cells, folder / f"rate-{rate:g}")
        for cell, result in zip(cells, read_run_results(list(paths.values())), strict=True):
            assert isinstance(cell.depth, int)
            assert result.start is not None
            key = Cell(cell.scheme, cell.depth, rate, cell.seed)
            losses = [loss for _, loss in result.validation_loss]
            outcomes[key] = Outcome(result.state, result.reason, losses[-1] if losses else None, unigram)
            diagnoses[key] = result.start
    return outcomes, diagnoses


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Calibrate the thresholds of the verdicts on a grid of small runs.")
    parser.add_argument("--folder", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    result = calibrate(*run_grid(given.folder, rates=given.rates, seeds=given.seeds, steps=given.steps))
    write_file(given.folder / "calibration.json", json.dumps(result.numbers(), indent=1).encode())
    write_file(given.folder / "calibration.md", result.markdown().encode())
    print(result.markdown())


if __name__ == "__main__":
    main()
