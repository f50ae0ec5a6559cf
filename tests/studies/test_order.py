"""The order in which studies are run."""

from __future__ import annotations

from lamina.studies.order import WITHOUT_TRAINING, cheapest_first, claims_at_cost, run_costs
from lamina.studies.papers import STUDIES


def test_every_study_has_its_turn_and_cheap_ones_come_first() -> None:
    order = list(cheapest_first(STUDIES, "tiny"))
    assert sorted(order) == sorted(STUDIES)
    assert order.index("xiong-fig3") < order.index("admin-inits")
    assert order.index("b2t-fig9") < order.index("b2t-fig8")


def test_runs_that_are_trained_already_cost_nothing() -> None:
    own, other = run_costs("admin-fig1", "tiny"), run_costs("admin-fig7", "tiny")
    assert set(own) == set(other), "the two share their runs"
    assert claims_at_cost("admin-fig1", own, set(other)) == 1 / WITHOUT_TRAINING
    assert claims_at_cost("admin-fig1", own, ()) < 1 / WITHOUT_TRAINING
