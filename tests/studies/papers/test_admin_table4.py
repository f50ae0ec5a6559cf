"""admin-table4: its claim on made-up results."""

from __future__ import annotations

from lamina.studies.papers.admin_table4 import SIZES, AdminTable4
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims
from support.made_runs import made_results, scored

SIZES_OF_PAPER = [
    row("parameters in millions", float(stated), data=data, depth=depth) for data, _, depth, stated in SIZES
]
PAPER = ResultTable(
    [*SIZES_OF_PAPER, *made_results(AdminTable4(), lambda run: scored(43.8 if run["scheme"] == "admin" else 43.0))]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "A-49": ("parameters in millions", lambda row: 1.05 * (row.value or 0)),
    "A-50": ("test bleu", lambda row: 41.0 if row.labels["scheme"] == "admin" else 43.0),
}


def test_claims() -> None:
    check_claims(AdminTable4, PAPER, BREAKING)
