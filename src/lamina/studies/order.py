"""The order in which studies are run: those that decide most claims at the least cost first.

Whoever stops early then has as many verdicts as possible. Runs that an earlier study has trained cost nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from lamina.files.hashes import hash_json
from lamina.studies.papers import STUDIES

WITHOUT_TRAINING = 5000
"""The cost of a study besides its runs, which is about that of one run: layers times steps."""


def cheapest_first(names: Iterable[str], scale: str) -> Iterator[str]:
    """At each turn the study with the most claims in relation to the cost of the runs that it adds."""
    costs = {name: run_costs(name, scale) for name in sorted(names)}
    trained: set[str] = set()
    while costs:
        chosen = max(costs, key=lambda name: claims_at_cost(name, costs[name], trained))
        trained |= set(costs.pop(chosen))
        yield chosen


def claims_at_cost(name: str, costs: Mapping[str, int], trained: Container[str]) -> float:
    """The number of claims divided by the cost of the runs that are not trained yet."""
    added = sum(cost for run, cost in costs.items() if run not in trained)
    return max(1, len(STUDIES[name].claims)) / (WITHOUT_TRAINING + added)


def run_costs(name: str, scale: str) -> dict[str, int]:
    """The cost of every run of a study, with each of its seeds; runs that studies share have one key."""
    return {
        hash_json([run.data, run.config(seed).model_dump(mode="json")]): run.cost
        for run in STUDIES[name]().runs(scale)
        for seed in run.seeds
    }
