"""Results of runs made by hand: three schemes at two depths with two seeds each; one group fails."""

from __future__ import annotations

import math

from lamina.report.run_results import RunResult
from lamina.tasks.base import SampleOutput
from support.made_diagnoses import make


def made_result(scheme: str, depth: int, seed: int) -> RunResult:
    failed = scheme == "post-ln" and depth > 6
    floor = 6.5 if failed else 1.5 + 0.1 * seed + 0.1 * len(scheme)
    steps = range(10, 2010, 10)
    noise = [0.05 * math.sin(step * (seed + 1)) for step in steps]
    training = [(step, floor + 6 * math.exp(-step / 300) + more) for step, more in zip(steps, noise, strict=True)]
    return RunResult(
        name=f"{scheme}-{depth}-{depth}-{seed}",
        schemes=(scheme,),
        layers=(depth, depth),
        seed=seed,
        state="failed" if failed else "finished",
        reason="the loss did not fall below that of guessing by frequency" if failed else "",
        training_loss=training,
        validation_loss=training[9::10],
        best_loss=4.5,
        metrics={} if failed else {"BLEU": 30.2 + seed + 0.1 * depth},
        seconds=95.0 + depth,
        memory=3.1e8,
        start=make(scheme, layers=depth) if seed == 1 else None,
        end=make(scheme, layers=depth, step=2000) if seed == 1 else None,
        samples=(SampleOutput("Guten Morgen!", "Good morning!", "the the" if failed else "Good morning!"),),
    )


RUNS = [
    made_result(scheme, depth, seed) for depth in (6, 12) for scheme in ("post-ln", "pre-ln", "b2t") for seed in (1, 2)
]
CONCLUSIONS = [
    "At 12-12, post-ln fails on both seeds; pre-ln and b2t train.",
    "Its gradient at decoder layer 1 is a thousandth of that at the top, before any training.",
    "b2t reaches the best score at both depths.",
]
