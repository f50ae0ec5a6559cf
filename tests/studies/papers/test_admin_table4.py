"""admin-table4: its claim on made-up results."""

from __future__ import annotations

from lamina.studies.papers.admin_table4 import SIZES, AdminTable4
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims

PAPER = ResultTable(
    row("parameters in millions", float(stated), data=data, depth=depth) for data, _, depth, stated in SIZES
)
BREAKING: dict[str, tuple[str, Change]] = {"A-49": ("parameters in millions", lambda row: 1.05 * (row.value or 0))}


def test_claims() -> None:
    check_claims(AdminTable4, PAPER, BREAKING)


def test_its_only_claim_is_about_the_sizes() -> None:
    (judged,) = AdminTable4().judge(PAPER)
    assert (judged.claim.id, judged.verdict.outcome) == ("A-49", "holds")
