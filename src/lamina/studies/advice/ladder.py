"""The ladder: how many candidates a budget allows, and the steps after which the worse ones are given up.

rung 1    n candidates      s steps      one seed
rung 2    n / 3            3 s           the best of them, continued
rung 3    2                9 s           the best two, continued, and with further seeds from the start
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.errors import UserError
from lamina.formatting import duration
from lamina.options import Options

RATIO = 3
FINALISTS = 2
FEWEST, FEW, MOST = 4, 8, 27
"""The smallest number of candidates that is worth a comparison, the usual smallest, and the largest."""
SHORTEST, SHORT = 12, 40
"""The smallest number of steps after which candidates are compared, and the usual smallest."""


@dataclass(frozen=True)
class TrialCost:
    """What a trial takes."""

    per_step: float
    """Seconds of an update."""
    per_start: float
    """Seconds of everything else each time that it is started or continued: set-up, validation, saving."""

    def of(self, steps: float) -> float:
        return self.per_start + steps * self.per_step

    @classmethod
    def mean(cls, costs: Sequence[TrialCost]) -> TrialCost:
        number = len(costs)
        return cls(sum(each.per_step for each in costs) / number, sum(each.per_start for each in costs) / number)


class Ladder(Options):
    """The plan of an advice."""

    candidates: int
    """The number of candidates in the first rung."""
    first: int
    """The number of steps of the first rung."""

    @property
    def rungs(self) -> tuple[int, int, int]:
        """The steps at whose end candidates are compared."""
        return self.first, RATIO * self.first, RATIO**2 * self.first

    @property
    def length(self) -> int:
        """The number of steps of the finalists."""
        return self.rungs[-1]


def plan_ladder(budget: float, cost: TrialCost, candidates: int, seeds: int, planned: int) -> Ladder:
    """The ladder with the most candidates whose first rung is not too short; the fewer candidates, the longer it is.

    budget: the seconds that are left.
    planned: the steps of the run that advice is wanted for, which no trial exceeds.
    """
    longest = max(1, planned // RATIO**2)
    most = max(1, min(candidates, MOST))
    fewest = min(FEWEST, most)
    wanted = [(number, SHORT) for number in range(most, FEW, -1)]
    wanted += [(number, SHORTEST) for number in range(min(FEW, most), fewest - 1, -1)]
    for number, shortest in wanted:
        first = _affordable(budget, cost, number, seeds)
        if first >= min(shortest, longest):
            return Ladder(candidates=number, first=min(first, longest))
    needed = _seconds(cost, fewest, min(SHORTEST, longest), seeds)
    raise UserError(
        f"--budget leaves {duration(max(0.0, budget))} for training, and {fewest} candidates need at least "
        f"{duration(needed)}: an update of this model takes {duration(cost.per_step)}, and each start with a "
        f"validation {duration(cost.per_start)}. Give a budget that is {duration(needed - budget)} longer, a smaller "
        "model or less validation data"
    )


def survivors(candidates: int) -> int:
    """The number of candidates in the second rung."""
    return max(min(FINALISTS, candidates), math.ceil(candidates / RATIO))


def final_seconds(cost: TrialCost, ladder: Ladder, finalists: int, seeds: int) -> float:
    """The time of the last rung: the first seed is continued, further ones start from nothing."""
    _, middle, last = ladder.rungs
    return finalists * (cost.of(last - middle) + (seeds - 1) * cost.of(last))


def _affordable(budget: float, cost: TrialCost, candidates: int, seeds: int) -> int:
    """The largest number of steps of the first rung; 0 if there is none."""
    fixed = _seconds(cost, candidates, 0, seeds)
    per_step = _seconds(cost, candidates, 1, seeds) - fixed
    return max(0, math.floor((budget - fixed) / per_step)) if per_step > 0 else 0


def _seconds(cost: TrialCost, candidates: int, first: int, seeds: int) -> float:
    """The time of a whole ladder."""
    ladder = Ladder(candidates=candidates, first=first)
    second = survivors(candidates) * cost.of((RATIO - 1) * first)
    return candidates * cost.of(first) + second + final_seconds(cost, ladder, min(FINALISTS, candidates), seeds)
