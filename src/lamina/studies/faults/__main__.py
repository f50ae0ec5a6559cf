"""`python -m lamina.studies.faults`: run the fault grid and print its table."""

from __future__ import annotations

import argparse

from lamina.studies.faults.grid import MODELS, FaultOutcome, run_fault, run_healthy, summary, table
from lamina.studies.faults.injections import FAULTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lamina.studies.faults", description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="steps of training that show what a fault does")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    outcomes: list[FaultOutcome] = []
    for model in options.models:
        if not options.only:
            outcomes.append(run_healthy(model, options.steps))
        for fault in FAULTS:
            if options.only in fault.name:
                outcomes.append(run_fault(fault, model, options.steps))
                found = outcomes[-1]
                print(
                    f"{model}: {fault.name}: {found.named_by or 'NOT NAMED'} {found.module} {found.others}", flush=True
                )
    print(f"\n{table(outcomes)}\n\n{summary(outcomes)}")


if __name__ == "__main__":
    main()
