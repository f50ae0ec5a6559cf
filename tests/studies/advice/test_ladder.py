"""The ladder: what fits into a budget, and what is refused."""

from __future__ import annotations

import pytest

from lamina.errors import UserError
from lamina.studies.advice.ladder import (
    FEWEST,
    MOST,
    SHORT,
    SHORTEST,
    Ladder,
    TrialCost,
    final_seconds,
    plan_ladder,
    survivors,
)

COST = TrialCost(per_step=0.1, per_start=1.0)


def seconds_of(ladder: Ladder, cost: TrialCost, seeds: int) -> float:
    """The time of a ladder, trial by trial."""
    first, second, last = ladder.rungs
    total = sum(cost.of(first) for _ in range(ladder.candidates))
    total += sum(cost.of(second - first) for _ in range(survivors(ladder.candidates)))
    for _ in range(min(2, ladder.candidates)):
        total += cost.of(last - second) + sum(cost.of(last) for _ in range(seeds - 1))
    return total


@pytest.mark.parametrize("budget", [120.0, 180.0, 600.0, 1800.0])
@pytest.mark.parametrize("seeds", [2, 3])
def test_a_ladder_uses_its_budget_and_does_not_exceed_it(budget: float, seeds: int) -> None:
    ladder = plan_ladder(budget, COST, 60, seeds, planned=100_000)
    longer = ladder.model_copy(update={"first": ladder.first + 1})
    assert seconds_of(ladder, COST, seeds) <= budget < seconds_of(longer, COST, seeds)


def test_a_larger_budget_has_more_candidates_and_then_longer_rungs() -> None:
    small, medium, large = (plan_ladder(budget, COST, 60, 2, planned=100_000) for budget in (150.0, 300.0, 3000.0))
    assert FEWEST <= small.candidates < medium.candidates < large.candidates == MOST
    assert SHORTEST <= small.first < large.first
    assert medium.first >= SHORT


def test_no_trial_is_longer_than_the_planned_run() -> None:
    assert plan_ladder(1e6, COST, 60, 2, planned=900).length == 900
    assert plan_ladder(1e6, COST, 60, 2, planned=5).rungs == (1, 3, 9)


def test_few_candidates_are_all_trained() -> None:
    assert plan_ladder(1000.0, COST, 3, 2, planned=10_000).candidates == 3
    assert plan_ladder(1000.0, COST, 1, 2, planned=10_000).candidates == 1


def test_a_budget_that_is_too_small_is_refused_with_what_is_needed() -> None:
    with pytest.raises(UserError, match=r"4 candidates need at least 56 s: an update .* takes 0.1 s") as refused:
        plan_ladder(30.0, COST, 60, 2, planned=10_000)
    missing = float(str(refused.value).partition("a budget that is ")[2].partition(" s longer")[0])
    plan_ladder(31.0 + missing, COST, 60, 2, planned=10_000)


def test_the_last_rung_continues_the_first_seed_and_starts_the_others() -> None:
    ladder = Ladder(candidates=9, first=10)
    assert final_seconds(COST, ladder, finalists=2, seeds=2) == 2 * (7.0 + 10.0)


def test_a_third_survives_but_at_least_two() -> None:
    assert [survivors(number) for number in (27, 10, 4, 2, 1)] == [9, 4, 2, 2, 1]


def test_the_mean_of_costs() -> None:
    assert TrialCost.mean([COST, TrialCost(0.3, 2.0)]) == TrialCost(pytest.approx(0.2), 1.5)
