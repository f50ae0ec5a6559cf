"""residual-table2: its claims on made-up results."""

from __future__ import annotations

from lamina.studies.papers.residual_table2 import DEPTHS, ONE_NORM_PER_STACK, ResidualTable2, measure_parameters
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims
from support.made_runs import Labels, Values, made_results, scored

SCORES = {
    "6-6": {"post-ln": 35.37, "pre-ln": 35.12, "deep-norm": 35.34, "admin": 35.5, "t-fixup": 34.88, "resi-dual": 35.63},
    "12-12": {"pre-ln": 35.18, "deep-norm": 35.39, "admin": 35.67, "t-fixup": 35.45, "resi-dual": 36.09},
}


def trained(run: Labels) -> Values:
    if run["data"] == "few":
        return scored(30.0, (5.0, 4.0, 4.8) if run["depth"] == "18-18" else (5.0, 4.0, 4.2))
    return scored(SCORES[str(run["depth"])].get(str(run["scheme"])))


PARAMETERS = [
    row("extra parameters", extra, against=other, depth=depth)
    for depth in DEPTHS
    for other, extra in (("pre-ln", 0), ("post-ln", ONE_NORM_PER_STACK))
]
PAPER = ResultTable([*PARAMETERS, *made_results(ResidualTable2(), trained)])
BREAKING: dict[str, tuple[str, Change]] = {
    "R-23": ("bleu", lambda row: 30.0 if row.labels["scheme"] == "resi-dual" else row.value),
    "R-24": ("bleu", lambda row: 30.0 if row.labels["scheme"] == "resi-dual" else row.value),
    "R-25": ("bleu", lambda row: 40.0 if row.labels["scheme"] == "pre-ln" else 30.0),
    "R-26": ("bleu", lambda row: 40.0 if row.labels["scheme"] == "admin" else 30.0),
    "R-27": ("validation loss by step", lambda row: 800.0 - float(row.labels["step"])),
    "R-39": ("extra parameters", lambda row: 4096.0),
}


def test_claims() -> None:
    check_claims(ResidualTable2, PAPER, BREAKING)


def test_residual_has_as_many_parameters_as_pre_ln() -> None:
    found = ResultTable(measure_parameters())
    assert found.sample("extra parameters", against="pre-ln", depth=6).mean == 0
