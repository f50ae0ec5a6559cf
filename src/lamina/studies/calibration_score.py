"""Score the checks on a grid: thresholds are set on one half, correct predictions are counted on the other.

A run has **failed** if it ends less than a quarter as far below the unigram model's loss as the best run of its depth
and learning rate; so has every run that ends above it. Where even the best run is hardly below that loss, depth and
learning rate are left out, because nothing can be decided there.

A model is **expected to fail** if the check of vanishing gradients, of amplification or of the learning rate finds a
failure at initialisation. The baseline predicts the more frequent outcome for every run.
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
"""The distance below the unigram model's loss, in nats, that the best run of a depth and learning rate must reach."""
SHARE = 0.25
"""A run that ends less than this share of the best run's distance below the unigram model has failed."""


@dataclass(frozen=True)
class CalibrationCell:
    """One run of the grid."""

    scheme: str
    depth: int
    """Layers of the encoder, and of the decoder."""
    learning_rate: float
    seed: int

    @property
    def half(self) -> int:
        """0 to set thresholds, 1 to score them; all seeds of a cell are in the same half."""
        digest = hashlib.sha256(f"{self.scheme}-{self.depth}-{self.learning_rate:g}".encode()).digest()
        return digest[0] % 2


@dataclass(frozen=True)
class RunOutcome:
    """The final state of the run of a cell."""

    state: str
    reason: str
    valid_nll: float | None
    """The validation loss after the last step; None if the run ended before it."""
    unigram_nll: float

    @property
    def learnt(self) -> float:
        """The difference to the loss of a unigram model, in nats."""
        return -math.inf if self.valid_nll is None else self.unigram_nll - self.valid_nll


def failures(outcomes: Mapping[CalibrationCell, RunOutcome]) -> dict[CalibrationCell, bool]:
    """Whether each run has failed; runs for which that cannot be decided are left out."""
    best: dict[tuple[int, float], float] = {}
    for cell, outcome in outcomes.items():
        place = cell.depth, cell.learning_rate
        best[place] = max(best.get(place, -math.inf), outcome.learnt)
    decided = {
        cell: best[cell.depth, cell.learning_rate]
        for cell in outcomes
        if best[cell.depth, cell.learning_rate] >= LEARNT
    }
    return {cell: outcomes[cell].learnt < SHARE * most for cell, most in decided.items()}


@dataclass(frozen=True)
class Score:
    """Predictions against outcomes."""

    hits: int
    """Runs whose outcome was predicted."""
    misses: int
    """Failures that were not predicted."""
    false_alarms: int
    """Successes that were predicted to fail."""

    @property
    def total(self) -> int:
        return self.hits + self.misses + self.false_alarms

    @property
    def accuracy(self) -> float:
        return self.hits / self.total if self.total else math.nan

    def __str__(self) -> str:
        return (
            f"{self.hits} of {self.total} ({self.accuracy:.0%}), {self.misses} misses, {self.false_alarms} false alarms"
        )


def score(
    expected: Mapping[CalibrationCell, bool], failed: Mapping[CalibrationCell, bool], cells: Iterable[CalibrationCell]
) -> Score:
    pairs = [(expected[cell], failed[cell]) for cell in cells]
    return Score(
        hits=sum(guess == truth for guess, truth in pairs),
        misses=sum(truth and not guess for guess, truth in pairs),
        false_alarms=sum(guess and not truth for guess, truth in pairs),
    )


class CheckValues(NamedTuple):
    """The worst values of any stack that the checks measured at initialisation, or thresholds for these values."""

    vanishing: float
    """The smallest gradient norm of a layer, relative to that of the last layer."""
    amplification: float
    reach: float
    """The distance that the weights can move before the gradient is lost, in units of the learning rate."""

    def crosses(self, thresholds: CheckValues) -> bool:
        return (
            self.vanishing <= thresholds.vanishing
            or self.amplification >= thresholds.amplification
            or self.reach <= thresholds.reach
        )


def default_thresholds() -> CheckValues:
    """The thresholds that the checks have now."""
    checks = Vanishing, Amplification, LearningRate
    return CheckValues(*(check.Thresholds().failure for check in checks))


@dataclass(frozen=True)
class Calibration:
    """Thresholds, their scores, and a row for every run."""

    thresholds: CheckValues
    chosen_on: Score
    """The score on the half that the thresholds were set on."""
    held_out: Score
    defaults_held_out: Score
    """The score of the thresholds that the checks have now."""
    majority_held_out: Score
    """The score of predicting, for every cell, the more frequent outcome of the first half."""
    rows: tuple[dict[str, Any], ...]

    def numbers(self) -> dict[str, Any]:
        return asdict(self)

    def markdown(self) -> str:
        lines = [
            "# Calibration of the checks\n",
            f"Thresholds set on one half: a layer's share of the gradient below {self.thresholds.vanishing:.3g}, "
            f"amplification above {self.thresholds.amplification:.3g}, or reach below "
            f"{self.thresholds.reach:.3g} times the learning rate.\n",
            "| prediction by | correct |",
            "| --- | --- |",
            f"| those thresholds, on the half they were set on | {self.chosen_on} |",
            f"| the same, on the other half | {self.held_out} |",
            f"| the present thresholds, on the other half | {self.defaults_held_out} |",
            f"| the more frequent outcome, on the other half | {self.majority_held_out} |\n",
            "| scheme | depth | learning rate | half | gradient | amplification | reach | learnt | failed | expected |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in self.rows:
            lines.append(
                "| {scheme} | {depth} | {learning_rate:g} | {half} | {vanishing:.3f} | {amplification:.2f} | "
                "{reach:.3g} | {learnt:.2f} | {failed} | {expected} |".format(**row)
            )
        return "\n".join(lines) + "\n"


def calibrate(
    outcomes: Mapping[CalibrationCell, RunOutcome], diagnoses: Mapping[CalibrationCell, Diagnosis]
) -> Calibration:
    failed = failures(outcomes)
    seen = {cell: worst(run_checks(diagnoses[cell].measurements, learning_rate=cell.learning_rate)) for cell in failed}
    halves = [[cell for cell in failed if cell.half == half] for half in (0, 1)]
    chosen = choose(seen, failed, halves[0])
    expected, by_default = expect(seen, chosen), expect(seen, default_thresholds())
    majority = 2 * sum(failed[cell] for cell in halves[0]) > len(halves[0])
    rows = [
        asdict(cell)
        | {"half": cell.half, **seen[cell]._asdict()}
        | {"learnt": outcomes[cell].learnt, "failed": failed[cell], "expected": expected[cell]}
        for cell in sorted(failed, key=lambda cell: (cell.scheme, cell.depth, cell.learning_rate, cell.seed))
    ]
    return Calibration(
        thresholds=chosen,
        chosen_on=score(expected, failed, halves[0]),
        held_out=score(expected, failed, halves[1]),
        defaults_held_out=score(by_default, failed, halves[1]),
        majority_held_out=score(dict.fromkeys(failed, majority), failed, halves[1]),
        rows=tuple(rows),
    )


def worst(findings: Sequence[Finding]) -> CheckValues:
    def values(check: str) -> list[float]:
        found = [each.value for each in findings if each.check == check and each.value is not None]
        return [value for value in found if not math.isnan(value)]

    return CheckValues(
        vanishing=min(values("vanishing"), default=math.inf),
        amplification=max(values("amplification"), default=0.0),
        reach=min(values("learning-rate"), default=math.inf),
    )


def expect(seen: Mapping[CalibrationCell, CheckValues], thresholds: CheckValues) -> dict[CalibrationCell, bool]:
    return {cell: signs.crosses(thresholds) for cell, signs in seen.items()}


def choose(
    seen: Mapping[CalibrationCell, CheckValues],
    failed: Mapping[CalibrationCell, bool],
    cells: Sequence[CalibrationCell],
) -> CheckValues:
    """The thresholds with the most hits; among equals those nearest to the present ones, on a log scale."""
    near = default_thresholds()
    candidates = [_between({seen[cell][sign] for cell in cells}, near[sign]) for sign in range(len(near))]
    known = [(seen[cell], failed[cell]) for cell in cells]

    def worth(thresholds: CheckValues) -> tuple[int, float]:
        distance = sum(abs(math.log(one / other)) for one, other in zip(thresholds, near, strict=True))
        return sum(signs.crosses(thresholds) == truth for signs, truth in known), -distance

    return max((CheckValues(*each) for each in product(*candidates)), key=worth)


def _between(values: Iterable[float], default: float) -> list[float]:
    """The default, and the geometric means of neighbouring values."""
    known = sorted(value for value in values if 0 < value < math.inf)
    return [default, *(math.sqrt(one * other) for one, other in zip(known, known[1:], strict=False))]
