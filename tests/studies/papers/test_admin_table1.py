"""admin-table1: its claim and table on made-up results."""

from __future__ import annotations

import math

from lamina.studies.papers.admin_table1 import PAIRS, AdminTable1
from lamina.studies.result_table import ResultTable
from support.made_results import Change, check_claims, rows
from support.made_runs import made_results, scored

GRADIENTS = ResultTable(
    row
    for encoder, decoder in PAIRS
    for stack in ("encoder", "decoder")
    for at in range(1, 37)
    for slope in [0.1 if (stack, decoder) == ("decoder", "post-ln") else -0.01]
    for row in rows("gradient", math.exp(slope * at), encoder=encoder, decoder=decoder, stack=stack, sublayer=at)
)
PAPER = ResultTable(
    [*GRADIENTS, *made_results(AdminTable1(), lambda run: scored(None if run["encoder"] == "post-ln" else 28.0))]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "A-11": ("gradient", lambda row: float(row.labels["sublayer"])),
    "A-12": ("trained", lambda row: None if row.labels["decoder"] == "post-ln" else 1.0),
}


def test_claims() -> None:
    check_claims(AdminTable1, PAPER, BREAKING)


def test_the_table_names_the_models_whose_gradients_vanish() -> None:
    (exhibit,) = AdminTable1().exhibits(PAPER)
    assert [row[:2] for row in exhibit.tables[0].rows] == [
        ("post-ln, post-ln", "vanishing"),
        ("post-ln, pre-ln", "not vanishing"),
        ("pre-ln, pre-ln", "not vanishing"),
    ]
