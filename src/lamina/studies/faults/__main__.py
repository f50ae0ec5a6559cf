"""`python -m lamina.studies.faults`: run the fault grid and print its tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from lamina.studies.faults.fault_table import read_outcomes, summary, table, write_outcomes
from lamina.studies.faults.grid import MODELS, FaultOutcome, run_fault, run_healthy
from lamina.studies.faults.held_out import score_table
from lamina.studies.faults.injections import FAULTS
from lamina.studies.faults.short_training import SEEDS, healthy_limit


def run_model(model: str, only: str, steps: int) -> list[FaultOutcome]:
    """All faults in one model, and the model without a fault at several seeds."""
    mean, limit = healthy_limit(MODELS[model], steps) if steps else (None, 0.0)
    outcomes = [] if only else [run_healthy(model, seed, mean) for seed in SEEDS]
    for fault in FAULTS:
        if only in fault.name:
            found = run_fault(fault, model, steps, limit)
            outcomes.append(found)
            print(f"{model}: {fault.name}: {found.named_by or 'NOT NAMED'} {found.module} {found.others}", flush=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lamina.studies.faults", description=__doc__)
    parser.add_argument("--steps", type=int, default=150, help="steps of training that show what a fault does")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--output", type=Path, help="a JSON file for the outcomes")
    parser.add_argument("--read", type=Path, nargs="*", help="such files: print their tables and run nothing")
    options = parser.parse_args()
    if options.read:
        outcomes = [each for file in options.read for each in read_outcomes(file)]
    else:
        outcomes = [each for model in options.models for each in run_model(model, options.only, options.steps)]
    if options.output:
        write_outcomes(outcomes, options.output)
    print(f"\n{table(outcomes)}\n\n{summary(outcomes)}")
    if not options.only:
        print(f"\n{score_table(outcomes)}")


if __name__ == "__main__":
    main()
