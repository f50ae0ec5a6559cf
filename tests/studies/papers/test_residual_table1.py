"""residual-table1: the table on made-up results."""

from __future__ import annotations

from lamina.studies.papers.residual_table1 import ResidualTable1
from lamina.studies.result_table import ResultTable
from support.made_results import rows

VALUES = {"post-ln": (0.05, 0.9), "pre-ln": (0.9, 0.1), "resi-dual": (0.8, 0.9)}
TABLE = ResultTable(
    row
    for scheme, values in VALUES.items()
    for check, value in zip(("vanishing", "collapse"), values, strict=True)
    for stack, factor in (("encoder", 1.1), ("decoder", 1.0))
    for row in rows("value of the check", factor * value, scheme=scheme, check=check, stack=stack)
)


def test_the_table_says_which_method_has_which_fault() -> None:
    (exhibit,) = ResidualTable1().exhibits(TABLE)
    assert exhibit.tables[0].rows == (
        ("post-ln", "yes (decoder 0.05)", "no (decoder 0.9)"),
        ("pre-ln", "no (decoder 0.9)", "yes (decoder 0.1)"),
        ("resi-dual", "no (decoder 0.8)", "no (decoder 0.9)"),
    )
