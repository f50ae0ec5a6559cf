"""Made-up results of studies: values for every seed, changed copies of a table, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lamina.studies.result_table import Label, ResultRow, ResultTable
from lamina.studies.study import Study

SEEDS = (1, 2, 3)
Change = Callable[[ResultRow], float | None]


def rows(quantity: str, value: float, seeds: Sequence[int] = SEEDS, **labels: Label) -> Iterator[ResultRow]:
    """The value at every seed, with a spread of a thousandth."""
    for seed in seeds:
        yield ResultRow(quantity=quantity, value=value * (1 + 1e-3 * (seed - 2)), seed=seed, labels=dict(labels))


def changed(table: ResultTable, quantity: str, change: Change, **labels: Label) -> ResultTable:
    """The table with other values of a quantity, for the rows with these labels; at least one row must change."""
    chosen = set(map(id, table.where(quantity, **labels)))
    assert chosen, f"no row of {quantity} has the labels {labels}"
    return ResultTable(row.model_copy(update={"value": change(row)}) if id(row) in chosen else row for row in table)


def outcomes(study: type[Study], table: ResultTable) -> dict[str, str]:
    """The verdicts by claim."""
    return {each.claim.id: each.verdict.outcome for each in study().judge(table)}


def check_claims(
    study: type[Study], paper: ResultTable, breaking: Mapping[str, tuple[str, Change]], untrained: Sequence[str] = ()
) -> None:
    """Every claim of a study holds on the paper's results, and does not once a quantity has other values.

    Claims in `untrained` are about trained models too: what was measured agrees with them, but leaves them undecided.
    """
    held, without = outcomes(study, paper), outcomes(study, ResultTable())
    assert set(breaking) == set(held)
    for claim, (quantity, change) in breaking.items():
        assert held[claim] == ("undecided" if claim in untrained else "holds"), claim
        assert outcomes(study, changed(paper, quantity, change))[claim] == "does not hold", claim
        assert without[claim] == "undecided", claim
