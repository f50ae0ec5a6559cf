"""Thresholds from one half of the grid, hits and false alarms on the other, beside the majority's guess.

A run has **failed** if it ends less than a quarter as far below the unigram model's loss as the best run of its depth
and rate; so has every run that ends above it. Where even the best has learnt next to nothing, depth and rate are left
out: nothing was decided there.

A model is **expected to fail** if a verdict about vanishing gradients, amplification or the rate, at its start, is a
failure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

from lamina.diagnosis.checks import run_checks
from lamina.diagnosis.checks.amplification import Amplification
from lamina.diagnosis.checks.learning_rate import LearningRate
from lamina.diagnosis.checks.vanishing import Vanishing
from lamina.diagnosis.results import Diagnosis, Finding

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


class Signs(NamedTuple):
    """What the verdicts found at a model's start, the worst of any stack; or the thresholds for these."""

    vanishing: float
    """The least share of the gradient that a layer has."""
    amplification: float
    reach: float
    """How many times the rate the weights can move before the gradient vanishes."""

    def crosses(self, thresholds: Signs) -> bool:
        return (
            self.vanishing <= thresholds.vanishing
            or self.amplification >= thresholds.amplification
            or self.reach <= thresholds.reach
        )


def library() -> Signs:
    """The thresholds as they are."""
    checks = Vanishing, Amplification, LearningRate
    return Signs(*(check.Thresholds().failure for check in checks))


@dataclass(frozen=True)
class Calibration:
    """What was found."""

    thresholds: Signs
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
            f"Thresholds set on one half: a layer's share of the gradient below {self.thresholds.vanishing:.3g}, "
            f"amplification above {self.thresholds.amplification:.3g}, or room to move below "
            f"{self.thresholds.reach:.3g} times the rate.\n",
            "| expectation | right |",
            "| --- | --- |",
            f"| those thresholds, on the half they were set on | {self.chosen_on} |",
            f"| the same, on the other half | {self.held_out} |",
            f"| the library's thresholds, on the other half | {self.defaults_held_out} |",
            f"| majority's guess, on the other half | {self.majority_held_out} |\n",
            "| scheme | depth | rate | half | gradient | amplification | room ÷ rate | learnt | failed | expected |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in self.rows:
            lines.append(
                "| {scheme} | {depth} | {rate:g} | {half} | {vanishing:.3f} | {amplification:.2f} | {reach:.3g} | "
                "{learnt:.2f} | {failed} | {expected} |".format(**row)
            )
        return "\n".join(lines) + "\n"


def calibrate(outcomes: Mapping[Cell, Outcome], diagnoses: Mapping[Cell, Diagnosis]) -> Calibration:
    failed = failures(outcomes)
    seen = {cell: worst(run_checks(diagnoses[cell].measurements, learning_rate=cell.rate)) for cell in failed}
    halves = [[cell for cell in failed if cell.half == half] for half in (0, 1)]
    chosen = choose(seen, failed, halves[0])
    expected, by_library = expect(seen, chosen), expect(seen, library())
    majority = 2 * sum(failed[cell] for cell in halves[0]) > len(halves[0])
    rows = [
        asdict(cell)
        | {"half": cell.half, **seen[cell]._asdict()}
        | {"learnt": outcomes[cell].learnt, "failed": failed[cell], "expected": expected[cell]}
        for cell in sorted(failed, key=lambda cell: (cell.scheme, cell.depth, cell.rate, cell.seed))
    ]
    return Calibration(
        thresholds=chosen,
        chosen_on=score(expected, failed, halves[0]),
        held_out=score(expected, failed, halves[1]),
        defaults_held_out=score(by_library, failed, halves[1]),
        majority_held_out=score(dict.fromkeys(failed, majority), failed, halves[1]),
        rows=tuple(rows),
    )


def worst(findings: Sequence[Finding]) -> Signs:
    def values(check: str) -> list[float]:
        found = [each.value for each in findings if each.check == check and each.value is not None]
        return [value for value in found if not math.isnan(value)]

    return Signs(
        vanishing=min(values("vanishing"), default=math.inf),
        amplification=max(values("amplification"), default=0.0),
        reach=min(values("learning-rate"), default=math.inf),
    )


def expect(seen: Mapping[Cell, Signs], thresholds: Signs) -> dict[Cell, bool]:
    return {cell: signs.crosses(thresholds) for cell, signs in seen.items()}


def choose(seen: Mapping[Cell, Signs], failed: Mapping[Cell, bool], cells: Sequence[Cell]) -> Signs:
    """The thresholds with the most hits; among equals those nearest to the library's, on a log scale."""
    near = library()
    candidates = [_between({seen[cell][sign] for cell in cells}, near[sign]) for sign in range(len(near))]
    known = [(seen[cell], failed[cell]) for cell in cells]

    def worth(thresholds: Signs) -> tuple[int, float]:
        distance = sum(abs(math.log(one / other)) for one, other in zip(thresholds, near, strict=True))
        return sum(signs.crosses(thresholds) == truth for signs, truth in known), -distance

    return max((Signs(*each) for each in product(*candidates)), key=worth)


def _between(values: Iterable[float], default: float) -> list[float]:
    """The default, and the geometric middles of neighbouring values."""
    known = sorted(value for value in values if 0 < value < math.inf)
    return [default, *(math.sqrt(one * other) for one, other in zip(known, known[1:], strict=False))]
