"""residual-table2: the claim about parameters on made-up results."""

from __future__ import annotations

from lamina.studies.papers.residual_table2 import DEPTHS, ONE_NORM_PER_STACK, ResidualTable2, measure_parameters
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims

PAPER = ResultTable(
    row("extra parameters", extra, against=other, depth=depth)
    for depth in DEPTHS
    for other, extra in (("pre-ln", 0), ("post-ln", ONE_NORM_PER_STACK))
)
BREAKING: dict[str, tuple[str, Change]] = {"R-39": ("extra parameters", lambda row: 4096.0)}


def test_claims() -> None:
    check_claims(ResidualTable2, PAPER, BREAKING)


def test_residual_has_as_many_parameters_as_pre_ln() -> None:
    found = ResultTable(measure_parameters())
    assert found.sample("extra parameters", against="pre-ln", depth=6).mean == 0
