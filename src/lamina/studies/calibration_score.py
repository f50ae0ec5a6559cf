"""Thresholds from one half of the grid, hits and false alarms on the other, beside the majority's guess.

A run has **failed** if it ends less than a quarter as far below the unigram model's loss as the best run of its depth
and rate; so has every run that ends above it. Where even the best has learnt next to nothing, depth and rate are left
out: nothing was decided there.

A model is **expected to fail** if a verdict about vanishing gradients or amplification, at its start, is a failure. The
verdict does not know the rate.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from lamina.diagnose.results import Diagnosis, Verdict
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdicts import judge

LEARNT = 0.1
"""Nats below the unigram model that the best run of a depth and rate must have reached."""
SHARE = 0.25
"""Of what the best run has learnt: who has less has failed."""


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    scheme: str
    depth: int
    """Layers of the encoder, and of the decoder."""
    rate: float
    seed: int

    @property
    def half(self) -> int:
        """0 to set thresholds, 1 to count hits; all seeds of a cell are on one side."""
        digest = hashlib.sha256(f"{self.scheme}-{self.depth}-{self.rate:g}".encode()).digest()
        return digest[0] % 2


@dataclass(frozen=True)
class Outcome:
    """How the run of a cell ended."""

    state: str
    reason: str
    valid_nll: float | None
    """After the last step; None where it never got there."""
    unigram_nll: float

    @property
    def learnt(self) -> float:
        """Nats below the unigram model."""
        return -math.inf if self.valid_nll is None else self.unigram_nll - self.valid_nll


def failures(outcomes: Mapping[Cell, Outcome]) -> dict[Cell, bool]:
    """Which runs have failed, where that can be said."""
    best: dict[tuple[int, float], float] = {}
    for cell, outcome in outcomes.items():
        place = cell.depth, cell.rate
        best[place] = max(best.get(place, -math.inf), outcome.learnt)
    decided = {cell: best[cell.depth, cell.rate] for cell in outcomes if best[cell.depth, cell.rate] >= LEARNT}
    return {cell: outcomes[cell].learnt < SHARE * most for cell, most in decided.items()}


@dataclass(frozen=True)
class Score:
    """Expectations against what happened."""

    hits: int
    """Failures that were expected, and successes that were."""
    misses: int
    """Failures that were not expected."""
    false_alarms: int
    """Successes that were expected to fail."""

    @property
    def total(self) -> int:
        return self.hits + self.misses + self.false_alarms

    @property
    def rate(self) -> float:
        return self.hits / self.total if self.total else math.nan

    def __str__(self) -> str:
        return f"{self.hits} of {self.total} ({self.rate:.0%}), {self.misses} misses, {self.false_alarms} false alarms"


def score(expected: Mapping[Cell, bool], failed: Mapping[Cell, bool], cells: Iterable[Cell]) -> Score:
    pairs = [(expected[cell], failed[cell]) for cell in cells]
    return Score(
        hits=sum(guess == truth for guess, truth in pairs),
        misses=sum(truth and not guess for guess, truth in pairs),
        false_alarms=sum(guess and not truth for guess, truth in pairs),
    )


@dataclass(frozen=True)
class Calibration:
    """What was found."""

    vanishing: float
    amplification: float
    chosen_on: Score
    """The half that the thresholds were set on."""
    held_out: Score
    defaults_held_out: Score
    """With the thresholds that the library has now."""
    majority_held_out: Score
    """The more frequent outcome of the first half, guessed for every cell of the second."""
    rows: tuple[dict[str, Any], ...]

    def numbers(self) -> dict[str, Any]:
        return asdict(self)

    def markdown(self) -> str:
        lines = [
            "# Calibration of the verdicts\n",
            f"Thresholds set on one half: a layer's share of the gradient below {self.vanishing:.3g}, or amplification "
            f"above {self.amplification:.3g}.\n",
            "| expectation | right |",
            "| --- | --- |",
            f"| those thresholds, on the half they were set on | {self.chosen_on} |",
            f"| the same, on the other half | {self.held_out} |",
            f"| the library's thresholds, on the other half | {self.defaults_held_out} |",
            f"| majority's guess, on the other half | {self.majority_held_out} |\n",
            "| scheme | depth | rate | half | gradient | amplification | nats learnt | failed | expected |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in self.rows:
            lines.append(
                "| {scheme} | {depth} | {rate:g} | {half} | {vanishing:.3f} | {amplification:.2f} | {learnt:.2f} | "
                "{failed} | {expected} |".format(**row)
            )
        return "\n".join(lines) + "\n"


def calibrate(outcomes: Mapping[Cell, Outcome], diagnoses: Mapping[Cell, Diagnosis]) -> Calibration:
    failed = failures(outcomes)
    evidence = {cell: worst(judge(diagnoses[cell].measures)) for cell in failed}
    halves = [[cell for cell in failed if cell.half == half] for half in (0, 1)]
    vanishing, amplification = choose(evidence, failed, halves[0])
    expected = expect(evidence, vanishing, amplification)
    library = VerdictOptions()
    by_library = expect(evidence, library.vanishing_failure, library.amplification_failure)
    majority = 2 * sum(failed[cell] for cell in halves[0]) > len(halves[0])
    rows = [
        asdict(cell)
        | {"half": cell.half, "vanishing": evidence[cell][0], "amplification": evidence[cell][1]}
        | {"learnt": outcomes[cell].learnt, "failed": failed[cell], "expected": expected[cell]}
        for cell in sorted(failed, key=lambda cell: (cell.scheme, cell.depth, cell.rate, cell.seed))
    ]
    return Calibration(
        vanishing=vanishing,
        amplification=amplification,
        chosen_on=score(expected, failed, halves[0]),
        held_out=score(expected, failed, halves[1]),
        defaults_held_out=score(by_library, failed, halves[1]),
        majority_held_out=score(dict.fromkeys(failed, majority), failed, halves[1]),
        rows=tuple(rows),
    )


def worst(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """The least share of the gradient and the largest amplification of any stack."""
    shares = [verdict.value for verdict in verdicts if verdict.kind == "vanishing"]
    amplified = [verdict.value for verdict in verdicts if verdict.kind == "amplification"]
    return min(shares, default=math.inf), max(amplified, default=0.0)


def expect(evidence: Mapping[Cell, tuple[float, float]], vanishing: float, amplification: float) -> dict[Cell, bool]:
    return {cell: share <= vanishing or amplified >= amplification for cell, (share, amplified) in evidence.items()}


def choose(
    evidence: Mapping[Cell, tuple[float, float]], failed: Mapping[Cell, bool], cells: Sequence[Cell]
) -> tuple[float, float]:
    """The pair of thresholds with the most hits; among equals the one nearest to the library's, on a log scale."""
    library = VerdictOptions()
    near = library.vanishing_failure, library.amplification_failure
    shares, amplified = (_between({evidence[cell][side] for cell in cells}, near[side]) for side in (0, 1))

    def worth(pair: tuple[float, float]) -> tuple[int, float]:
        distance = sum(abs(math.log(one / other)) for one, other in zip(pair, near, strict=True))
        return score(expect(evidence, *pair), failed, cells).hits, -distance

    return max(product(shares, amplified), key=worth)


def _between(values: Iterable[float], default: float) -> list[float]:
    """The default, and the geometric middles of neighbouring values."""
    known = sorted(value for value in values if 0 < value < math.inf)
    return [default, *(math.sqrt(one * other) for one, other in zip(known, known[1:], strict=False))]
